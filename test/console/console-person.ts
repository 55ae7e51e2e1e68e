import type { Browser, Locator, Page } from 'playwright-core'

/** Faults in a browser while the console was used. */
export interface Complaints {
  /** Errors and warnings of its console, refusals of the content security policy among them, and of the page. */
  readonly said: readonly string[]
  /** `503 /console/api/…` and requests that failed otherwise; not those that the page itself gave up. */
  readonly failed: readonly string[]
  /** Origins that were asked. */
  readonly origins: ReadonlySet<string>
}

/** A person with a browser of their own, who finds things by their names. */
export interface Person {
  readonly page: Page
  readonly complaints: Complaints
  readonly origin: string
  /** Waits for the form, and signs in. */
  signIn(key: string): Promise<void>
  /** Follows a link of the navigation, by its words. */
  go(view: string): Promise<void>
  /** The open dialog of that title. */
  dialog(title: string | RegExp): Locator
  /** The row of the table of that caption that holds the text. */
  row(caption: string, text: string): Locator
  /** Waits for a message that says so. */
  told(text: string | RegExp): Promise<void>
}

/** A page that asks whether there is a session is told 401 when there is none: the one refusal that is no fault. */
const SIGNED_OUT = '401 /console/api/session'
/** Nor is it one that the name of a new route is free, which is asked before its draft is made. */
const FREE_NAME = /^404 \/console\/api\/workspaces\/[\w-]+\/routes\/[\w.-]+$/
/** On a machine where everything runs at once. */
const PATIENCE_MS = 20_000

/** @param origin of a gateway */
export async function openPerson(browser: Browser, origin: string): Promise<Person> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, baseURL: origin })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin })
  const page = await context.newPage()
  page.setDefaultTimeout(PATIENCE_MS)
  const complaints = listen(page)
  await page.goto('/console')
  return {
    page,
    complaints,
    origin,
    async signIn(key) {
      await page.getByLabel('API key').fill(key)
      await page.getByRole('button', { name: 'Sign in' }).click()
    },
    async go(view) {
      await page.getByRole('navigation').getByRole('link', { name: view, exact: true }).first().click()
      await page.getByRole('main').getByRole('heading', { level: 1 }).waitFor()
    },
    dialog: (title) => page.getByRole('dialog', { name: title }),
    row: (caption, text) =>
      page.getByRole('table', { name: caption }).getByRole('row').filter({ hasText: text }),
    told: (text) => page.getByRole('status').filter({ hasText: text }).first().waitFor({ state: 'attached' }),
  }
}

function listen(page: Page): Complaints {
  const said: string[] = []
  const failed: string[] = []
  const origins = new Set<string>()
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol.startsWith('http')) origins.add(origin)
  })
  page.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText ?? ''
    if (reason !== 'net::ERR_ABORTED') failed.push(`${reason} ${new URL(request.url()).pathname}`)
  })
  page.on('response', (response) => {
    const what = `${response.status()} ${new URL(response.url()).pathname}`
    if (response.status() >= 400 && what !== SIGNED_OUT && !FREE_NAME.test(what)) failed.push(what)
  })
  page.on('pageerror', ({ message }) => said.push(message))
  page.on('console', (message) => {
    // Failed loads are listed with their status above.
    const isNews = !message.text().startsWith('Failed to load resource')
    if (isNews && ['error', 'warning'].includes(message.type())) said.push(message.text())
  })
  return { said, failed, origins }
}

/** Drags something to the middle of something else with the mouse, in steps as a hand does. */
export async function drag(page: Page, from: Locator, to: Locator): Promise<void> {
  await from.scrollIntoViewIfNeeded()
  const [start, end] = [await middleOf(from), await middleOf(to)]
  await page.mouse.move(start.x, start.y)
  await page.mouse.down()
  await page.mouse.move(start.x, (start.y + end.y) / 2, { steps: 5 })
  await page.mouse.move(start.x, end.y + 12, { steps: 5 })
  await page.mouse.up()
}

async function middleOf(element: Locator): Promise<{ readonly x: number; readonly y: number }> {
  const box = await element.boundingBox()
  if (box === null) throw new Error('what is dragged is not seen')
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 }
}
