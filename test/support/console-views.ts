import type { Page } from 'playwright-core'
import { axeFaults } from './page-checks.ts'

/** A view of the console, and what it is called in a report. */
export interface MeasuredView {
  readonly name: string
  /** Path after `/console`. */
  readonly path: string
}

interface ViewPlaces {
  readonly route: string
  readonly provider: string
  readonly keyName: string
  readonly requestId: string
  readonly traceId: string
  readonly endUser: string
  readonly recordId: string
}

/** Every view of the workspace `acme` and of the platform, those with much data in all their forms. */
export function viewsOf(places: ViewPlaces): readonly MeasuredView[] {
  const { route, provider, keyName, requestId, traceId, endUser, recordId } = places
  const log = (more: Readonly<Record<string, string>>) =>
    `requests?${new URLSearchParams({ tab: 'log', ...more }).toString()}`
  const own: readonly (readonly [name: string, path: string])[] = [
    ['overview, hour', 'overview'],
    ['overview, day', 'overview?range=24h'],
    ['overview, week', 'overview?range=7d'],
    ['overview, month', 'overview?range=30d'],
    ['usage by model', 'usage'],
    ['usage by key', 'usage?by=key_id'],
    ['usage by key, day', 'usage?by=key_id&range=24h'],
    ['usage by app, week', 'usage?by=app&range=7d'],
    ['usage by end user', 'usage?by=end_user'],
    ['usage, errors by code', 'usage?by=error_code&show=errors'],
    ['requests, live', 'requests'],
    ['log', log({})],
    ['log, 5xx', log({ status: '5xx' })],
    ['log of an end user', log({ end_user: endUser })],
    ['log of a request', log({ id: requestId })],
    ['log of a trace', log({ id: traceId })],
    ['one record', `requests/log/${recordId}`],
    ['routes', 'routes'],
    ['one route', `routes/${route}`],
    ['providers', 'providers'],
    ['one provider', `providers/${provider}`],
    ['apps', 'apps'],
    ['keys', 'keys'],
    ['keys, last page', 'keys?page=100'],
    ['keys, found', `keys?q=${encodeURIComponent(keyName)}`],
    ['jobs', 'jobs'],
    ['live', 'live'],
    ['playground', 'playground'],
    ['settings', 'settings'],
    ['audit', 'audit'],
    ['sessions', 'sessions'],
    ['setup', 'setup'],
  ]
  const platform: readonly (readonly [name: string, path: string])[] = [
    ['overview, hour', 'overview'],
    ['overview, week', 'overview?range=7d'],
    ['overview, month', 'overview?range=30d'],
    ['usage by workspace', 'usage'],
    ['usage by end user', 'usage?by=end_user'],
    ['workspaces', 'workspaces'],
    ['one workspace', 'workspaces/acme'],
    ['providers', 'providers'],
    ['one provider', `providers/${provider}`],
    ['live', 'live'],
    ['audit', 'audit'],
    ['sessions', 'sessions'],
  ]
  return [
    ...own.map(([name, path]) => ({ name, path: `/acme/${path}` })),
    ...platform.map(([name, path]) => ({ name: `platform: ${name}`, path: `/${path}` })),
  ]
}

/**
 * Tells when a page can be used, on the clock that began with the navigation: its heading, its data and its charts are
 * there, it waits for no answer, and its thread has been free since for a while.
 */
export const WATCH_READY = `{
  const QUIET_MS = 150
  const { fetch } = globalThis
  let waiting = 0
  let busyUntil = 0
  globalThis.fetch = async (...asked) => {
    waiting += 1
    try { return await fetch(...asked) } finally { waiting -= 1 }
  }
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) busyUntil = Math.max(busyUntil, startTime + duration)
  }).observe({ type: 'longtask', buffered: true })
  const isThere = () => document.querySelector('main h1') !== null && waiting === 0
    && document.querySelector('.skeleton, .overview-waiting') === null
    && [...document.querySelectorAll('.chart-place')].every((place) => place.querySelector('canvas') !== null)
  globalThis.ready = (mostMs) => new Promise((resolve, reject) => {
    let since = null
    const look = () => {
      const now = performance.now()
      if (!isThere()) since = null
      else since ??= now
      const free = Math.max(since ?? Infinity, busyUntil)
      if (now - free >= QUIET_MS) resolve(free)
      else if (now > mostMs) reject(new Error('not ready after ' + mostMs + ' ms'))
      else requestAnimationFrame(look)
    }
    look()
  })
}`

/** Longest that a view is waited for. */
const PATIENCE_MS = 60_000

/** Opens a view as a link does. @returns milliseconds until it can be used; `WATCH_READY` has to run in its pages */
export async function openView(page: Page, path: string): Promise<number> {
  await page.goto(`/console${path}`, { waitUntil: 'commit' })
  return Math.round(await page.evaluate<number>(`ready(${PATIENCE_MS})`))
}

/** Bytes of a view over the wire, for a first visitor. */
export interface FirstLoad {
  /** Bytes of the page, its scripts and its styles. */
  readonly shell: number
  /** Bytes of everything, with data. */
  readonly all: number
}

/** Counts what is sent while something is done, without the browser's cache. */
export async function weighed(page: Page, work: () => Promise<unknown>): Promise<FirstLoad> {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.setCacheDisabled', { cacheDisabled: true })
  const types = new Map<string, string>()
  const sizes = { shell: 0, all: 0 }
  session.on('Network.responseReceived', ({ requestId, type }) => void types.set(requestId, type))
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    sizes.all += encodedDataLength
    if (['Document', 'Script', 'Stylesheet'].includes(types.get(requestId) ?? ''))
      sizes.shell += encodedDataLength
  })
  try {
    await work()
    return sizes
  } finally {
    await session.detach()
  }
}

/** The rules of axe that a view breaks in either theme. */
export async function axeInBoth(page: Page): Promise<readonly string[]> {
  const found: string[] = []
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    const faults = await axeFaults(
      page,
      colorScheme === 'light' ? undefined : ['color-contrast', 'link-in-text-block'],
    )
    found.push(...faults.map((fault) => `${colorScheme}: ${fault}`))
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
  return found
}

/** Failed loads that a view reports, and the rows of its longest table. */
export function shownOn(
  page: Page,
): Promise<{ readonly troubles: readonly string[]; readonly rows: number; readonly heading: string }> {
  return page.evaluate(`(() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent.slice(0, 120))
    return {
      troubles: texts('main .error-state, main .note-bad[role=alert]'),
      rows: Math.max(0, ...[...document.querySelectorAll('main table')].map((table) => table.rows.length)),
      heading: document.querySelector('main h1')?.textContent ?? '',
    }
  })()`)
}

/**
 * Types into the search of all things.
 *
 * @param look called while the results are seen
 * @returns    milliseconds from the last key until what was looked for is listed
 */
export async function findByKeyboard(
  page: Page,
  text: string,
  look?: () => Promise<unknown>,
): Promise<number> {
  const input = page.getByRole('combobox', { name: /Page, route/ })
  await page.keyboard.press('Control+k')
  await input.and(page.locator(':focus')).waitFor()
  await page.keyboard.type(text)
  const typedMs = performance.now()
  await page.getByRole('option').filter({ hasText: text }).filter({ hasText: 'Key' }).first().waitFor()
  const foundMs = Math.round(performance.now() - typedMs)
  await look?.()
  await page.keyboard.press('Escape')
  await input.waitFor({ state: 'detached' })
  return foundMs
}

/** The overview's words about a failing provider. */
export interface TroubleSeen {
  readonly text: string
  /** From opening the overview until which, since when and whom was read there. */
  readonly milliseconds: number
  readonly isWhole: boolean
}

/** Opens the overview of the platform and reads there what is wrong: no click is needed. */
export async function readTrouble(page: Page, provider: string): Promise<TroubleSeen> {
  const beganMs = performance.now()
  await page.goto('/console/overview', { waitUntil: 'commit' })
  const trouble = page
    .getByRole('region', { name: 'Provider problems' })
    .locator('.note', { hasText: provider })
  await trouble.getByText(/Affects \d/).waitFor()
  const milliseconds = Math.round(performance.now() - beganMs)
  const text = (await trouble.textContent()) ?? ''
  const parts = [
    new RegExp(`${provider} is (down|degraded|failing)`),
    /since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d/,
    /Affects \d+ routes? \(.+\) and \d+ apps? \(.+\)/,
  ]
  return { text, milliseconds, isWhole: parts.every((part) => part.test(text)) }
}
