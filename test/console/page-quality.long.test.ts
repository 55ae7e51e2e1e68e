import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../support/browser.ts'
import { startConsoleNode } from '../support/console-node.ts'
import {
  axeFaults,
  faintTexts,
  namelessParts,
  overflowOf,
  shiftsOf,
  tabFaults,
  WATCH_SHIFTS,
} from '../support/page-checks.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { openPerson, type Person } from './console-person.ts'
import { setScene } from './console-scene.ts'

/** Limit of the first load over the wire: the page, its scripts and its styles. */
const FIRST_LOAD_BYTES = 100_000
/** Half of what counts as good (https://web.dev/articles/cls). */
const SHIFT = 0.05
/** A phone. */
const NARROW = { width: 375, height: 812 }
const WIDE = { width: 1280, height: 800 }
/** CSS pixels of a window of 1280 at a zoom of 200 %, and of 125 %, where tables have least room. */
const ZOOMED = [640, 1024]

const VIEWS = [
  ...['overview', 'routes', 'routes/acme.voice', 'routes/acme.next', 'routes/voice', 'providers', 'apps'],
  ...[
    ...['keys', 'playground', 'playground?tab=live', 'playground?tab=speech', 'playground?tab=chat', 'usage'],
    ...['providers/acme.weak', 'requests', 'requests?tab=log', 'live', 'jobs', 'settings', 'audit', 'setup'],
  ],
].map((view) => `/console/acme/${view}`)
const PLATFORM_VIEWS = [
  ...['overview', 'workspaces', 'workspaces/acme', 'providers', 'requests', 'live', 'audit', 'setup'],
].map((view) => `/console/${view}`)
const ALL_VIEWS = [...VIEWS, ...PLATFORM_VIEWS]

/** Opens a view as a link does, and waits until it is complete. */
async function visit(page: Page, view: string): Promise<void> {
  await page.goto(view, { waitUntil: 'networkidle' })
  await page.getByRole('main').getByRole('heading', { level: 1 }).waitFor()
  await page.locator('.skeleton').waitFor({ state: 'detached' })
  // Measures take the fonts and the colours at rest.
  await page.evaluate(
    'Promise.all([document.fonts.ready, ...document.getAnimations().map((one) => one.finished.catch(() => {}))])',
  )
}

/** Each view as the first of a visit, on a desk: its bytes, and its looks. */
async function weigh(t: Test, visitor: Person): Promise<void> {
  const { page } = visitor
  await appear(page, 'light', WIDE)
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.setCacheDisabled', { cacheDisabled: true })
  const types = new Map<string, string>()
  const sizes = new Map<string, number>()
  session.on('Network.responseReceived', ({ requestId, type }) => void types.set(requestId, type))
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const type = types.get(requestId) ?? 'Other'
    sizes.set(type, (sizes.get(type) ?? 0) + encodedDataLength)
  })
  for (const view of ALL_VIEWS) {
    await page.goto('about:blank')
    sizes.clear()
    await visit(page, view)
    // The charts' library comes last, once there is something to draw.
    if (view === '/console/acme/overview') await page.locator('canvas').first().waitFor()
    const first = ['Document', 'Script', 'Stylesheet'].map((type) => sizes.get(type) ?? 0)
    const sum = first.reduce((total, size) => total + size, 0)
    t.comment(`${view}: ${sum} bytes (${first.join(' + ')})`)
    t.ok(
      first.every((size) => size > 500),
      `${view}: each was counted`,
    )
    t.ok(sum < FIRST_LOAD_BYTES, `${view}: ${sum} bytes`)
    await measure(t, page, view)
    await axe(t, page, view)
    for (const width of ZOOMED) {
      await page.setViewportSize({ ...WIDE, width })
      t.equal(await overflowOf(page), 0, `${view} is not wider than a window of ${width}`)
    }
    await page.setViewportSize(WIDE)
  }
  await session.send('Network.setCacheDisabled', { cacheDisabled: false })
  await session.detach()
}

/** The same views on a phone; what it shows is a part of what a desk does, whose colours are looked at there. */
async function carry(t: Test, { page }: Person): Promise<void> {
  await appear(page, 'dark', NARROW)
  for (const view of ALL_VIEWS) {
    await visit(page, view)
    await measure(t, page, view)
    t.same(await axeFaults(page), [], `axe: ${view}, on a phone`)
  }
  await appear(page, 'light', WIDE)
}

async function appear(page: Page, colorScheme: 'light' | 'dark', size: typeof WIDE): Promise<void> {
  await page.setViewportSize(size)
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
}

/** Layout shift, width, contrast and names. */
async function measure(t: Test, page: Page, view: string): Promise<void> {
  const { sum, what } = await shiftsOf(page)
  t.ok(sum <= SHIFT, `${view} moves by ${sum.toFixed(3)} ${what.join(', ')}`)
  t.equal(await overflowOf(page), 0, `${view} is not wider than the window`)
  t.same(await faintTexts(page), [], `${view}: texts can be read`)
  t.same(await namelessParts(page), [], `${view}: all parts have names`)
}

/** All rules of axe in the light theme, and those of colours in the dark one as well. */
async function axe(t: Test, page: Page, what: string): Promise<void> {
  t.same(await axeFaults(page), [], `axe: ${what}`)
  await page.emulateMedia({ colorScheme: 'dark' })
  t.same(await axeFaults(page, ['color-contrast', 'link-in-text-block']), [], `axe: ${what}, dark`)
  await page.emulateMedia({ colorScheme: 'light' })
}

/** Views, and the buttons there that open a dialog. */
const DIALOGS: readonly (readonly [view: string, buttons: readonly (string | RegExp)[]])[] = [
  ['acme/providers', ['Add provider', 'Check acme.ears', 'Edit acme.ears', 'Delete acme.ears']],
  ['acme/routes', ['Create route']],
  ['acme/routes/acme.voice', ['Add entry', 'Publish…', 'Discard draft', 'Delete route']],
  ['acme/apps', ['Create app', /^Edit/, 'Create purpose']],
  ['acme/keys', ['Create key', /^Revoke/]],
  ['acme/settings', ['Create webhook']],
  ['workspaces/acme', ['Add credits']],
]

async function openAll(t: Test, { page }: Person): Promise<void> {
  for (const [view, buttons] of DIALOGS) {
    await visit(page, `/console/${view}`)
    for (const name of buttons) {
      await page.getByRole('main').getByRole('button', { name }).first().click()
      const dialog = page.getByRole('dialog')
      await dialog.waitFor()
      await dialog.locator('.skeleton').waitFor({ state: 'detached' })
      await axe(t, page, `${view}, ${name}`)
      await dialog
        .getByRole('button', { name: /^(Close|Cancel)$/ })
        .first()
        .click()
      await dialog.waitFor({ state: 'detached' })
    }
  }
  for (const view of ['routes/acme.voice?tab=changes', 'routes/acme.voice?tab=history', 'nowhere']) {
    await visit(page, `/console/acme/${view}`)
    await axe(t, page, view)
  }
  for (const list of ['requests?outcome=failed', 'jobs']) {
    await visit(page, `/console/acme/${list}`)
    await page.getByRole('main').locator('table a').first().click()
    await page.locator('.page-parent').waitFor()
    await page.locator('.skeleton').waitFor({ state: 'detached' })
    await axe(t, page, `one of ${list}`)
  }
}

/** A second visit loads no file again, and asks for no change of one. */
async function visitAgain(t: Test, { page }: Person): Promise<void> {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  const asked: string[] = []
  const paths = new Map<string, string>()
  session.on('Network.requestWillBeSent', ({ requestId, request }) => {
    paths.set(requestId, new URL(request.url).pathname)
  })
  // A file from the browser's cache has no length on the wire; a 304 has.
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const path = paths.get(requestId) ?? ''
    if (path.startsWith('/console/assets/') && encodedDataLength > 0) asked.push(path)
  })
  for (const view of ['overview', 'routes/acme.voice']) await visit(page, `/console/acme/${view}`)
  asked.length = 0
  for (const view of ['overview', 'routes/acme.voice']) await visit(page, `/console/acme/${view}`)
  t.same(asked, [], 'a second visit asks for no file')
  await session.detach()
}

/** As wide in the list as any. */
const WORDY_KEY = {
  name: 'W'.repeat(64),
  app: 'phone',
  scopes: ['inference', 'jobs', 'queue', 'admin', 'operator'],
  budget_usd_per_month: 100_000,
  rate_limit: { requests_per_minute: 100_000, burst: 100_000 },
  expires_at: '2099-01-01T00:00:00Z',
}

const FAULTY = `<body style="width: 2000px; background: #fff">
  <p style="color: #999">faint</p><p style="color: #555">clear</p>
  <button style="outline: none">Named</button><button></button>`

t.test('the checks find what is wrong', { skip: withoutServers }, async (t) => {
  const browser = await openBrowser(t)
  const page = await browser.newPage({ viewport: WIDE })
  await page.setContent(FAULTY)
  // Shifts right after a key count as its effect, so this comes first.
  await page.evaluate(WATCH_SHIFTS)
  const isSeen = async () => {
    await page.evaluate(
      "document.body.prepend(Object.assign(document.createElement('hr'), { style: 'height: 20px' }))",
    )
    return (await shiftsOf(page)).sum > SHIFT
  }
  t.ok(await waitUntil(isSeen), 'what moves is seen')
  t.match(await faintTexts(page), [/^2\.85 "faint"/])
  t.same(await namelessParts(page), ['button'])
  t.ok((await overflowOf(page)) > 700)
  t.match(await tabFaults(page), [/focus is not seen: .*Named/])
  const broken = (await axeFaults(page)).map((fault) => fault.split(':')[0])
  for (const rule of ['button-name', 'color-contrast']) t.ok(broken.includes(rule), `axe: ${rule}`)
})

t.test(
  'the page is light, still, legible and usable by keys',
  { skip: withoutServers, timeout: 280_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    const visitor = await setScene(node)
    await visitor.post('/workspaces/acme/keys', WORDY_KEY)
    const browser = await openBrowser(t)
    const operator = await openPerson(browser, node.url)
    await operator.page.addInitScript(WATCH_SHIFTS)
    t.same(await faintTexts(operator.page), [], 'the sign-in can be read')
    await operator.signIn(node.keys.operator)
    await operator.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    // The calls of the scene are told of within some seconds: what comes with them moves the rest, as it should.
    await visit(operator.page, '/console/acme/overview')
    await operator.page.locator('canvas').first().waitFor()
    await operator.page.getByRole('region', { name: 'Provider problems' }).waitFor()
    await t.test('the first load, on a desk', (t) => weigh(t, operator))
    await t.test('the second load', (t) => visitAgain(t, operator))
    await t.test('on a phone', (t) => carry(t, operator))
    await t.test('keys', async (t) => {
      for (const view of ['routes', 'routes/acme.voice']) {
        await visit(operator.page, `/console/acme/${view}`)
        t.same(await tabFaults(operator.page), [], `${view}: Tab reaches all, and the focus is seen`)
      }
    })
    await t.test('axe: dialogs and details', (t) => openAll(t, operator))
    const { said, failed, origins } = operator.complaints
    t.same([...said, ...failed], [], 'no view complains')
    t.same([...origins], [node.url], 'and none asks another origin')
  },
)
