//! Which fields of a table become which columns.

use std::collections::HashMap;

use crate::DataError;
use crate::read::target::{self, TargetReason};
use crate::read::{Options, TargetColumn};

/// The largest number of categories of a column.
const MAX_CATEGORIES: usize = 1024;

/// The fields of each record.
#[derive(Debug)]
pub(in crate::read) struct Fields {
    pub(in crate::read) count: usize,
    pub(in crate::read) names: Option<Vec<String>>,
}

impl Fields {
    pub(in crate::read) fn name(&self, field: usize) -> String {
        let name = self.names.as_ref().map(|names| names[field].clone());
        name.unwrap_or_else(|| (field + 1).to_string())
    }

    pub(in crate::read) fn named(&self, name: &str) -> Option<usize> {
        self.names.as_ref()?.iter().position(|known| known == name)
    }

    /// A field by its name, or by its number from 1.
    pub(in crate::read) fn find(&self, name: &str) -> Result<usize, DataError> {
        let number = name.parse::<usize>().ok().filter(|n| (1..=self.count).contains(n));
        self.named(name).or(number.map(|n| n - 1)).ok_or_else(|| DataError::NoSuchColumn {
            name: name.to_owned(),
            known: match &self.names {
                Some(names) => names.join(", "),
                None => format!("1 to {}", self.count),
            },
        })
    }
}

/// A field whose texts are categories.
#[derive(Debug)]
pub(in crate::read) struct Categorical {
    pub(in crate::read) field: usize,
    known: HashMap<String, u32>,
    /// Further categories are new ones, not errors.
    open: bool,
}

impl Categorical {
    /// The category of a text.
    pub(in crate::read) fn of(
        &mut self,
        word: &str,
        line: usize,
        fields: &Fields,
    ) -> Result<u32, DataError> {
        if let Some(category) = self.known.get(word) {
            return Ok(*category);
        }
        let column = fields.name(self.field);
        if !self.open {
            let value = word.chars().take(40).collect();
            return Err(DataError::UnknownCategory { line, column, value });
        }
        if self.known.len() == MAX_CATEGORIES {
            return Err(DataError::TooManyCategories { column, limit: MAX_CATEGORIES });
        }
        let category = self.known.len() as u32;
        self.known.insert(word.to_owned(), category);
        Ok(category)
    }
}

/// One column of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum TableColumn {
    /// The number at this position among the numeric fields.
    Number(usize),
    /// 1 where the field at this position among the categorical ones holds this category.
    Is(usize, u32),
}

/// The use of each field.
#[derive(Debug, Default)]
pub(in crate::read) struct TableColumns {
    pub(in crate::read) label: Option<usize>,
    /// Why that field is the label, or none is.
    reason: Option<TargetReason>,
    pub(in crate::read) id: Option<usize>,
    pub(in crate::read) numeric: Vec<usize>,
    pub(in crate::read) categorical: Vec<Categorical>,
    /// The columns of the matrix, in order; those of open categories come with `close`.
    pub(in crate::read) order: Vec<TableColumn>,
    /// Names of fields that are neither expected nor label nor id.
    pub(in crate::read) ignored: Vec<String>,
}

impl TableColumns {
    pub(in crate::read) fn choose(fields: &Fields, options: &Options) -> Result<Self, DataError> {
        let id = options.id.as_ref().map(|id| fields.find(id)).transpose()?;
        let hot = options.one_hot.iter().map(|name| fields.find(name));
        let hot = hot.collect::<Result<Vec<_>, _>>()?;
        if let (Some(_), Some(expected)) = (&fields.names, &options.names) {
            return Self::expected(fields, options, id, expected);
        }
        let (label, reason) = target::find(fields, options, id, &[])?;
        let mut columns = Self { label, reason: Some(reason), id, ..Self::default() };
        for field in (0..fields.count).filter(|field| Some(*field) != label && Some(*field) != id) {
            if hot.contains(&field) {
                columns.categorical.push(Categorical { field, known: HashMap::new(), open: true });
            } else {
                columns.order.push(TableColumn::Number(columns.numeric.len()));
                columns.numeric.push(field);
            }
        }
        Ok(columns)
    }

    /// The columns a machine expects, by name; `column=category` where the table has such a column.
    fn expected(
        fields: &Fields,
        options: &Options,
        id: Option<usize>,
        expected: &[String],
    ) -> Result<Self, DataError> {
        let mut columns = Self { id, ..Self::default() };
        for name in expected {
            if let Some(field) = fields.named(name) {
                columns.order.push(TableColumn::Number(columns.numeric.len()));
                columns.numeric.push(field);
                continue;
            }
            let split = name.split_once('=');
            let found = split.and_then(|(column, word)| Some((fields.named(column)?, word)));
            let Some((field, word)) = found else {
                let known = fields.names.as_ref().map_or(String::new(), |names| names.join(", "));
                return Err(DataError::ColumnNeeded { name: name.clone(), known });
            };
            let place = columns.categorical.iter().position(|known| known.field == field);
            let place = place.unwrap_or_else(|| {
                columns.categorical.push(Categorical { field, known: HashMap::new(), open: true });
                columns.categorical.len() - 1
            });
            let category = columns.categorical[place].of(word, 1, fields)?;
            columns.order.push(TableColumn::Is(place, category));
        }
        columns.categorical.iter_mut().for_each(|known| known.open = false);
        let taken: Vec<usize> = columns
            .numeric
            .iter()
            .copied()
            .chain(columns.categorical.iter().map(|known| known.field))
            .collect();
        let (label, reason) = target::find(fields, options, id, &taken)?;
        (columns.label, columns.reason) = (label, Some(reason));
        let is_left_out = |field: &usize| {
            !taken.contains(field) && Some(*field) != columns.label && Some(*field) != id
        };
        columns.ignored =
            (0..fields.count).filter(is_left_out).map(|field| fields.name(field)).collect();
        Ok(columns)
    }

    /// Whether the categories are still being collected from the file.
    pub(in crate::read) fn has_open_categories(&self) -> bool {
        self.categorical.iter().any(|known| known.open)
    }

    /// All rows were read: categories, sorted by their texts, become columns after the numeric ones.
    pub(in crate::read) fn close(&mut self) {
        for (place, categorical) in self.categorical.iter().enumerate() {
            if !categorical.open {
                continue;
            }
            let mut words: Vec<(&String, &u32)> = categorical.known.iter().collect();
            words.sort();
            self.order
                .extend(words.into_iter().map(|(_, category)| TableColumn::Is(place, *category)));
        }
    }

    /// The target column and why it is that one.
    pub(in crate::read) fn target(&self, fields: &Fields) -> Option<TargetColumn> {
        let column = self.label.map(|field| fields.name(field));
        Some(TargetColumn { column, reason: self.reason? })
    }

    pub(in crate::read) fn width(&self) -> usize {
        self.order.len()
    }

    /// Names of the columns, if the fields have names.
    pub(in crate::read) fn names(&self, fields: &Fields) -> Option<Vec<String>> {
        fields.names.as_ref()?;
        let name = |column: &TableColumn| match column {
            TableColumn::Number(at) => fields.name(self.numeric[*at]),
            TableColumn::Is(place, category) => {
                let categorical = &self.categorical[*place];
                let word = categorical.known.iter().find(|(_, known)| *known == category);
                let word = word.map_or("", |(word, _)| word.as_str());
                format!("{}={word}", fields.name(categorical.field))
            }
        };
        Some(self.order.iter().map(name).collect())
    }
}
