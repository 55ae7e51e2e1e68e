import type { Browser, BrowserContextOptions, Page } from 'playwright-core'

/** Generous: cores are shared. */
export const WAIT = { timeout: 60_000 }

/** A page of the console in a browser of its own. */
export interface Visit {
  readonly page: Page
  /** Complaints of the browser, refusals of the content security policy among them; without those of a wrong key. */
  readonly complaints: readonly string[]
  /** Origins that were asked. */
  readonly asked: ReadonlySet<string>
}

/** A tab that knows nothing yet; default: 1280 px wide. */
export async function openTab(browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  const page = await context.newPage()
  const complaints: string[] = []
  const asked = new Set<string>()
  page.on('pageerror', ({ message }) => complaints.push(message))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !/40[13]/.test(message.text()))
      complaints.push(message.text())
  })
  page.on('request', (request) => asked.add(new URL(request.url()).origin))
  return { page, complaints, asked }
}

/** Opens an address, and signs in there. */
export async function signIn(page: Page, url: string, key: string) {
  await page.goto(url)
  await page.locator('input[name=key]').fill(key)
  await page.keyboard.press('Enter')
}

/** Waits for the view of this name. */
export async function heading(page: Page, name: string) {
  await page.getByRole('heading', { level: 1, name, exact: true }).waitFor(WAIT)
}

/** Has what a page asks for come no sooner than it is let go. @param url as Playwright matches it */
export async function held(page: Page, url: string) {
  const asking = Promise.withResolvers<void>()
  const going = Promise.withResolvers<void>()
  await page.route(url, async (route) => {
    asking.resolve()
    await going.promise
    await route.continue()
  })
  return { asked: asking.promise, letGo: going.resolve }
}
