// The three pictures of docs/guide/page.md, by the environment of support.mjs; MERCER_COMMAND must be a release build, for times are in
// them. node crates/mercer-play/page/tests/pictures.mjs writes them.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeAll, made, mercer, openBrowser, shows, start, visit } from '../../../mercer-server/page/tests/support.mjs';

const FOLDER = fileURLToPath(new URL('../../../../docs/guide/pictures/', import.meta.url));
const LOOK = { viewport: { width: 1000, height: 800 } };

await openBrowser();
const address = await start('play', ['--no-browser']);
const taken = async (page, name) => {
  await page.evaluate(() => document.activeElement.blur());
  const main = await page.locator('main').boundingBox();
  const last = await page.locator('main > :last-child').boundingBox();
  await page.screenshot({ path: path.join(FOLDER, `${name}.png`), fullPage: true, clip: { x: 0, y: 0, width: main.width, height: last.y + last.height + 16 } });
};

{
  const { page, end } = await visit(address, LOOK);
  await page.locator('#trained', { hasText: /of 400 points/ }).waitFor();
  await page.getByLabel('Vectors', { exact: true }).fill('6');
  await page.locator('#compressed', { hasText: 'compressed to 6' }).waitFor();
  // One change more: a point, and the time that it takes.
  await page.locator('#plane').click({ position: { x: 120, y: 150 } });
  await page.locator('#trained', { hasText: /of 401 points/ }).waitFor();
  await page.locator('#facts', { hasText: 'from the machine before' }).waitFor();
  await taken(page, 'train');
  await page.getByRole('link', { name: 'Where it is hard' }).click();
  await shows(page, /2.304 answers/);
  await page.waitForTimeout(500);
  await taken(page, 'hard');
  await end();
}
{
  // Two classes of sonar echoes, by a plan that closes a range in steps.
  const data = path.join(FOLDER, '../../../datasets/sonar/sonar.csv');
  mercer('train', data, '-o', made('s.mercer'), '--kernel', 'polynomial(degree=2, gamma=1, coef0=1)');
  mercer('compile', made('s.mercer'), '--plan', 'cascade(spectral, exact)', '-o', made('sonar.mercer'));
  const served = await start('serve', ['--show-supports', made('sonar.mercer')]);
  const { page, end } = await visit(`${served}#model=sonar&view=watch`, LOOK);
  await page.locator('.supports li').nth(7).waitFor();
  // A level line has no height: it is there, and counts as hidden.
  await page.locator('line.settled').waitFor({ state: 'attached' });
  await taken(page, 'watch');
  await end();
}
await closeAll();
