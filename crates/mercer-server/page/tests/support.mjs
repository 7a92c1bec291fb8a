// What the browser tests share: the command, servers, pages that fail on errors, and checks that hold for every view.
//
// MERCER_COMMAND is the command, MERCER_PAGE_MODULES the folder with playwright-core and axe-core, CHROMIUM the browser,
// MERCER_PAGE_SCREENSHOTS (if given) a folder for pictures, MERCER_PAGE_FILES (if given) folders, separated by colons, whose files
// stand in for those in the command: a change of the page need not be compiled to be tried.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const { MERCER_COMMAND, MERCER_PAGE_FILES, MERCER_PAGE_MODULES, MERCER_PAGE_SCREENSHOTS, CHROMIUM } = process.env;
const modules = createRequire(path.join(MERCER_PAGE_MODULES, 'package.json'));
const { chromium } = modules('playwright-core');
const AXE = readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
/** What Chromium says of tests that look at pixels, and of a server that has too much to do: the page asks again. */
const HARMLESS = /^Canvas2D: Multiple readback|status of 429/;
/** What a page may weigh, in bytes. */
const MOST_BYTES = 150e3;

export const DATASETS = fileURLToPath(new URL('../../../../datasets/', import.meta.url));
const FOLDER = mkdtempSync(path.join(tmpdir(), 'mercer-page-'));
export const made = (name) => path.join(FOLDER, name);
export const mercer = (...words) => execFileSync(MERCER_COMMAND, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 });

const servers = [];
let browser;

/** Starts a server by a verb and returns its address. */
export function start(verb, words, { scheme = 'http', env = {} } = {}) {
  const child = spawn(MERCER_COMMAND, [verb, '--listen', '127.0.0.1:0', '--json', ...words], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
  servers.push(child);
  return new Promise((resolve, reject) => {
    let said = '';
    child.stderr.on('data', (data) => {
      said += data;
      const line = said.split('\n').slice(0, -1).find((text) => text.includes('"listening"'));
      if (line) resolve(`${scheme}://${JSON.parse(line).address}/`);
    });
    child.on('exit', () => reject(new Error(`the server ended: ${said}`)));
  });
}

export async function openBrowser() {
  if (MERCER_PAGE_SCREENSHOTS) mkdirSync(MERCER_PAGE_SCREENSHOTS, { recursive: true });
  browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

export async function closeAll() {
  await browser?.close();
  // This signal leaves out the pause for balancers.
  servers.forEach((child) => child.kill('SIGINT'));
  rmSync(FOLDER, { recursive: true, force: true });
}

/** Files of the page from folders instead of those in the command. */
const fromFolders = (context) => context.route('**/page/**', async (route) => {
  const name = path.basename(new URL(route.request().url()).pathname);
  const found = MERCER_PAGE_FILES.split(':').map((folder) => path.join(folder, name)).find((file) => existsSync(file));
  await (found ? route.fulfill({ path: found }) : route.continue());
});

/** A page that fails the test on an error of the console or a request to another host; `setUp` gets it before it is opened. */
export async function visit(address, options = {}, setUp = async () => {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, ...options });
  if (MERCER_PAGE_FILES) await fromFolders(context);
  const page = await context.newPage();
  const faults = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type()) && !HARMLESS.test(message.text())) faults.push(message.text()); });
  page.on('pageerror', (error) => faults.push(error.stack));
  page.on('request', (request) => { if (!/^(blob|data):/.test(request.url()) && new URL(request.url()).host !== new URL(address).host) faults.push(request.url()); });
  await setUp(page);
  await page.goto(address);
  return { page, context, faults, end: async (allowed = /^$/) => {
    await context.close();
    assert.deepEqual(faults.filter((fault) => !allowed.test(fault)), []);
  } };
}

export const shows = (page, words) => page.getByText(words).first().waitFor({ timeout: 20000 });

/** How many colours a canvas has. */
export const coloursOf = (canvas) => canvas.evaluate((element) => {
  const { data } = element.getContext('2d').getImageData(0, 0, element.width, element.height);
  return new Set(Array.from({ length: data.length / 4 }, (_, at) => data.slice(4 * at, 4 * at + 3).join())).size;
});

/** Fails on what axe finds, on a view that is too wide, and takes a picture. */
export async function checkView(page, name, width) {
  if (MERCER_PAGE_SCREENSHOTS) await page.screenshot({ path: path.join(MERCER_PAGE_SCREENSHOTS, `${name}.png`), fullPage: true });
  const own = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(own <= width, `${name}: ${own} wide`);
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], name);
}

/** A phone that is used with a finger. */
export const TOUCH = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** A finger goes along some places of an element, each a share of its width and its height. */
export async function swipe(page, locator, ...shares) {
  await locator.scrollIntoViewIfNeeded();
  const box = await locator.boundingBox();
  const places = shares.map(([right, down]) => ({ x: box.x + right * box.width, y: box.y + down * box.height }));
  const session = await page.context().newCDPSession(page);
  const send = (type, touchPoints) => session.send('Input.dispatchTouchEvent', { type, touchPoints });
  await send('touchStart', [places[0]]);
  for (const place of places.slice(1)) await send('touchMove', [place]);
  await send('touchEnd', []);
  await session.detach();
}

/** Presses Tab until an element has the focus. */
export async function tabTo(page, locator) {
  for (let press = 0; press < 60; press += 1) {
    await page.keyboard.press('Tab');
    if (await locator.evaluate((element) => element === document.activeElement)) return;
  }
  assert.fail(`Tab does not reach ${locator}`);
}

/** Light, dark and a phone: names and options of a page. */
export const LOOKS = [['light', {}, 1200], ['dark', { colorScheme: 'dark' }, 1200], ['phone', { viewport: { width: 390, height: 844 } }, 390]];

/** Fails if all files of a page together are too large. */
export async function checkBytes(address) {
  const { page, end } = await visit('about:blank');
  const bodies = [];
  page.on('response', (response) => { if (/\/$|\/page\//.test(new URL(response.url()).pathname)) bodies.push(response.body()); });
  await page.goto(address);
  await page.locator('main h2').waitFor();
  await page.waitForLoadState('networkidle');
  const bytes = (await Promise.all(bodies)).reduce((sum, body) => sum + body.length, 0);
  assert.ok(bytes > 50e3 && bytes <= MOST_BYTES, `${bytes} bytes`);
  await end(/./);
}
