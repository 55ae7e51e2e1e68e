// How long until each view of the console can be used, on a node with a month of 10 million calls by 5,000 keys over
// 500 routes: with the first question after its start, and again; what it weighs, and what axe finds. And how long it
// takes to read which provider fails, since when and whom it hits. Run: node bench/console-views.ts [--records
// 10000000] [--keys 5000] [--routes 500] [--folder DATA] [--shots FOLDER]      [--only TEXT] [--gate] DATA is filled
// once, which takes some minutes, and then taken as it is. With --gate the status is 1 when a view is over a limit.

import { mkdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { startSandbox } from '../src/sandbox/server.ts'
import { openBrowser } from '../test/support/browser.ts'
import { openSession } from '../test/support/console-session.ts'
import {
  axeInBoth,
  findByKeyboard,
  type MeasuredView,
  openView,
  readTrouble,
  shownOn,
  viewsOf,
  WATCH_READY,
  weighed,
} from '../test/support/console-views.ts'
import { FAILING, type FullConsole, fillConsole, fullConfiguration } from '../test/support/full-console.ts'
import { type Larkway, startLarkway } from '../test/support/larkway.ts'
import { freePort, tempFolder } from '../test/support/scratch.ts'
import { cpuSeconds } from './harness/accounting.ts'
import { commit, machine } from './harness/machine.ts'

const READY_MS = 1_000
const SHELL_BYTES = 100_000
/** With its data. */
const ALL_BYTES = 100_000
const LOOK_MS = 10_000
/** Visits of which the median is taken. */
const VISITS = 3
const CALL_EVERY_MS = 100
const RESULTS = new URL('results/micro/', import.meta.url)

const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '10000000' },
    keys: { type: 'string', default: '5000' },
    routes: { type: 'string', default: '500' },
    folder: { type: 'string' },
    shots: { type: 'string' },
    only: { type: 'string' },
    gate: { type: 'boolean', default: false },
  },
})

interface Row {
  readonly view: string
  /** With the first question after the start of the node, and with nothing in the browser's cache. */
  readonly cold_ms: number
  /** Median of later visits. */
  readonly warm_ms: number
  /** CPU of all threads of the node in both, which says more than time where others use the machine. */
  readonly node_cpu_ms: { readonly cold: number; readonly warm: number }
  readonly shell_bytes: number
  readonly all_bytes: number
  /** Rows of its longest table. */
  readonly rows: number
  readonly axe: readonly string[]
  readonly troubles: readonly string[]
  /** Load of the machine over a minute. */
  readonly load: number
}

const undos: (() => unknown)[] = []
const t = { teardown: (undo: () => unknown) => void undos.push(undo) }

/** The node, which can be started anew on its port, and what its visitors need. */
class Scene {
  readonly facts: FullConsole
  readonly cookies: { readonly name: string; readonly value: string; readonly url: string }[] = []
  readonly #dataFolder: string
  readonly #config: object
  readonly #env: Readonly<Record<string, string>>
  readonly url: string
  #node: Larkway | null = null

  private constructor(facts: FullConsole, dataFolder: string, config: object, port: number) {
    this.facts = facts
    this.#dataFolder = dataFolder
    this.#config = config
    this.#env = { PORT: String(port), LARKWAY_USAGE: 'true', LARKWAY_JOBS: '0' }
    this.url = `http://127.0.0.1:${port}`
  }

  static async open(failingUrl: string): Promise<Scene> {
    const [records, keys, routes] = [options.records, options.keys, options.routes].map(Number)
    const folder = options.folder ?? (await tempFolder(t))
    const facts = await fillConsole(folder, { records: records!, keys: keys!, routes: routes! })
    say(`${facts.records} records, ${facts.keys} keys, ${facts.routes} routes; made in ${facts.seconds} s`)
    const healthy = await startSandbox()
    t.teardown(() => healthy.close())
    const config = fullConfiguration(facts, { healthy: healthy.url, failing: failingUrl })
    const scene = new Scene(facts, folder, config, await freePort())
    await scene.restart()
    const { cookie } = await openSession(scene.url, facts.operator)
    const [name = '', value = ''] = cookie.split('=', 2)
    scene.cookies.push({ name, value, url: scene.url })
    return scene
  }

  async restart(): Promise<void> {
    if (this.#node !== null) await this.#node.signal('SIGTERM')
    this.#node = await startLarkway(t, {
      dataFolder: this.#dataFolder,
      config: this.#config,
      env: this.#env,
    })
  }

  /** CPU that the node has used since its start, milliseconds. */
  cpuMs(): number {
    return this.#node === null ? 0 : Math.round(cpuSeconds(this.#node.pid) * 1_000)
  }

  /** A user who has signed in before and has nothing of the console in the browser. */
  async visitor(browser: Browser): Promise<BrowserContext> {
    const context = await browser.newContext({ baseURL: this.url, viewport: { width: 1280, height: 900 } })
    await context.addCookies(this.cookies)
    await context.addInitScript(WATCH_READY)
    return context
  }

  async ask(path: string): Promise<Readonly<Record<string, unknown>>> {
    const cookie = this.cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
    const answer = await fetch(`${this.url}/console/api${path}`, { headers: { cookie } })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as Readonly<Record<string, unknown>>
  }
}

async function shoot(page: Page, name: string): Promise<void> {
  if (options.shots === undefined) return
  await page.screenshot({ path: join(options.shots, `${name.replaceAll(/\W+/g, '-')}.png`), fullPage: true })
}

async function measureView(scene: Scene, browser: Browser, view: MeasuredView): Promise<Row> {
  await scene.restart()
  const context = await scene.visitor(browser)
  const page = await context.newPage()
  let cold = 0
  const idle = scene.cpuMs()
  const sizes = await weighed(page, async () => {
    cold = await openView(page, view.path)
  })
  const after = scene.cpuMs()
  const warm: number[] = []
  for (let visit = 0; visit < VISITS; visit += 1) warm.push(await openView(page, view.path))
  const nodeMs = { cold: after - idle, warm: Math.round((scene.cpuMs() - after) / VISITS) }
  const { troubles, rows } = await shownOn(page)
  const axe = await axeInBoth(page)
  await shoot(page, view.name)
  await context.close()
  return {
    view: view.name,
    cold_ms: cold,
    warm_ms: warm.toSorted((a, b) => a - b)[Math.floor(VISITS / 2)]!,
    node_cpu_ms: nodeMs,
    shell_bytes: sizes.shell,
    all_bytes: sizes.all,
    rows,
    axe,
    troubles,
    load: Number(loadavg()[0]!.toFixed(1)),
  }
}

/** Searches the keys by their names, with the keyboard. */
async function measurePalette(scene: Scene, browser: Browser): Promise<number[]> {
  const context = await scene.visitor(browser)
  const page = await context.newPage()
  await openView(page, '/acme/keys')
  const found: number[] = []
  const look = () => shoot(page, 'search')
  for (let visit = 0; visit < VISITS; visit += 1)
    found.push(await findByKeyboard(page, scene.facts.keyName, look))
  await context.close()
  return found
}

interface Journey {
  /** From the moment at which the provider went away until an overview that was open said so in full. */
  readonly shown_after_ms: number
  /** From opening the overview until all three were read. */
  readonly read_ms: number
  readonly clicks: number
  readonly text: string
  readonly is_whole: boolean
  /** From a click on the provider until its page could be used. */
  readonly one_provider_ms: number
}

/** A provider goes away while calls continue, and a user looks. */
async function measureJourney(scene: Scene, browser: Browser, fail: () => Promise<void>): Promise<Journey> {
  let calling = true
  const calls = call(scene, () => calling)
  const context = await scene.visitor(browser)
  try {
    const [open, page] = [await context.newPage(), await context.newPage()]
    await openView(open, '/overview')
    await sleep(10_000)
    await fail()
    const failedMs = performance.now()
    await open
      .getByRole('region', { name: 'Provider problems' })
      .getByText(/Affects \d/)
      .waitFor()
    const shownAfterMs = Math.round(performance.now() - failedMs)
    const seen = await readTrouble(page, FAILING)
    await shoot(page, 'journey 1')
    const clickedMs = performance.now()
    await page.getByRole('region', { name: 'Provider problems' }).getByRole('link', { name: FAILING }).click()
    await page.getByRole('main').getByRole('table', { name: 'Used by' }).waitFor()
    const oneProviderMs = Math.round(performance.now() - clickedMs)
    await shoot(page, 'journey 2')
    return {
      ...{ shown_after_ms: shownAfterMs, read_ms: seen.milliseconds, clicks: 0 },
      ...{ text: seen.text, is_whole: seen.isWhole, one_provider_ms: oneProviderMs },
    }
  } finally {
    calling = false
    await calls
    await context.close()
  }
}

async function call({ url, facts }: Scene, isGoing: () => boolean): Promise<void> {
  for (let count = 0; isGoing(); count += 1) {
    const key = facts.callers[count % facts.callers.length]!
    const answer = await fetch(`${url}/v1/speech`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: '{"input":"e"}',
    })
    await answer.arrayBuffer()
    await sleep(CALL_EVERY_MS)
  }
}

function faultsOf({ cold_ms, warm_ms, shell_bytes, all_bytes, axe, troubles }: Row): string[] {
  return [
    ...(cold_ms > READY_MS ? ['cold'] : []),
    ...(warm_ms > READY_MS ? ['warm'] : []),
    ...(shell_bytes > SHELL_BYTES || all_bytes > ALL_BYTES ? ['weight'] : []),
    ...axe.map((fault) => `axe ${fault}`),
    ...troubles,
  ]
}

function say(sentence: string): void {
  process.stdout.write(`${sentence}\n`)
}

function sayRow(row: Row): void {
  const cells = [
    row.view.padEnd(28),
    `${row.cold_ms} ms`.padStart(9),
    `${row.warm_ms} ms`.padStart(8),
    `${row.node_cpu_ms.cold}/${row.node_cpu_ms.warm} ms CPU`.padStart(17),
    `${(row.shell_bytes / 1000).toFixed(1)} kB`.padStart(9),
    `${(row.all_bytes / 1000).toFixed(0)} kB`.padStart(8),
    `${row.rows} rows`.padStart(9),
    `load ${row.load}`.padStart(10),
  ]
  say([...cells, ...faultsOf(row)].join('  '))
}

async function main(): Promise<number> {
  if (options.shots !== undefined) mkdirSync(options.shots, { recursive: true })
  const failing = await startSandbox()
  const scene = await Scene.open(failing.url)
  const browser = await openBrowser(t)
  const { facts } = scene
  const query = `/log?workspace=acme&id=${facts.requestId}`
  const [record] = (await scene.ask(query)).records as readonly { readonly record_id: string }[]
  const views = viewsOf({ ...facts, provider: FAILING, recordId: record!.record_id })
  const rows: Row[] = []
  say(`${'view'.padEnd(28)}       cold      warm   node, cold/warm      shell       all  longest table`)
  for (const view of views) {
    if (options.only !== undefined && !view.name.includes(options.only)) continue
    rows.push(await measureView(scene, browser, view))
    sayRow(rows.at(-1)!)
  }
  const palette = await measurePalette(scene, browser)
  say(`search among ${facts.keys} keys: ${palette.join(', ')} ms from the last key`)
  const journey = await measureJourney(scene, browser, () => failing.close())
  say(`journey: ${JSON.stringify(journey, null, 2)}`)
  const faults = [
    ...rows.flatMap((row) => faultsOf(row).map((fault) => `${row.view}: ${fault}`)),
    ...(palette.some((ms) => ms > READY_MS) ? ['search'] : []),
    ...(journey.is_whole && journey.read_ms <= LOOK_MS ? [] : ['journey']),
  ]
  if (options.only === undefined) {
    mkdirSync(RESULTS, { recursive: true })
    const size = { records: facts.records, keys: facts.keys, routes: facts.routes }
    const result = {
      at: new Date().toISOString(),
      commit: commit(),
      machine: machine('nothing pinned'),
      size,
    }
    const file = new URL('console-views.json', RESULTS)
    writeFileSync(file, `${JSON.stringify({ ...result, rows, palette_ms: palette, journey }, null, 2)}\n`)
  }
  say(faults.length === 0 ? 'all within limits' : faults.join('\n'))
  return options.gate && faults.length > 0 ? 1 : 0
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
try {
  process.exitCode = await main()
} finally {
  for (const undo of undos.reverse()) await undo()
}
