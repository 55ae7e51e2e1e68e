import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../support/browser.ts'
import { consoleKeys, openSandbox, startConsoleNode } from '../support/console-node.ts'
import { drag, openPerson, type Person } from '../support/console-person.ts'
import {
  addEntry,
  addProvider,
  clipboardOf,
  draftRoute,
  dropFile,
  entriesOf,
  makeApp,
  makeKey,
  type NewProvider,
  publishRoute,
  shareOf,
  throttle,
  uploadBar,
  versionOf,
  watchUpload,
} from '../support/console-work.ts'
import { type Exposition, scrape } from '../support/exposition.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { startRedis } from '../support/redis-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { melody, wav } from '../support/tone.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const run = promisify(execFile)

/** Longer than any text that the page shows on purpose. */
const OPENAI_KEY = 'sk-journey-0123456789abcdef'
/** How soon every node serves what was published, and refuses what was revoked. */
const SOON_MS = 5_000
const LARGE_BYTES = 8_000_000

interface Journey {
  readonly larkway: Larkway
  readonly operator: Person
  /** Hears without telling speakers apart. */
  readonly openai: Upstream
  /** Hears, and tells speakers apart. */
  readonly deepgramUrl: string
  readonly folder: string
  metrics(): Promise<Exposition>
}

/** For both tests: what a person has done is their context's. */
let browser: Browser

t.before(async () => {
  if (!withoutServers) browser = await openBrowser(t, ['--autoplay-policy=no-user-gesture-required'])
})

async function openJourney(t: Test): Promise<Journey> {
  const larkway = await startLarkway(t, { env: { LARKWAY_METRICS_PORT: '0' } })
  const metricsPort = Number(larkway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  return {
    larkway,
    operator: await openPerson(browser, larkway.url),
    openai: await startUpstream(t),
    deepgramUrl: (await startUpstream(t, { dialect: deepgramDialect() })).url,
    folder: await tempFolder(t),
    metrics: () => scrape(metricsPort),
  }
}

/** What a call of the app heard, and from which version of the route. */
async function transcribe({ url }: Pick<Larkway, 'url'>, key: string) {
  const response = await fetch(`${url}/v1/transcription`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'audio/wav' },
    body: wav([melody(2, 16_000)], 16_000),
  })
  const answer = (await response.json()) as Record<string, unknown>
  return { status: response.status, answer, version: String(answer.policy_version_id) }
}

async function signIn(t: Test, { operator, larkway }: Journey): Promise<void> {
  const { page } = operator
  const wrong = `lk_live_${'a'.repeat(43)}_000000`
  await operator.signIn(wrong)
  await page.getByText('This key isn’t valid').waitFor()
  t.equal(await page.getByLabel('API key').getAttribute('aria-invalid'), 'true', 'a wrong key is said to be')
  await operator.signIn(larkway.key)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  t.match(page.url(), /\/console\/demo\/overview$/)
  t.ok(await page.getByRole('navigation').getByText('Platform').isVisible(), 'an operator sees the platform')
}

async function provide(t: Test, { operator }: Journey, provider: NewProvider): Promise<void> {
  const { page } = operator
  await addProvider(operator, 'demo', provider)
  const row = operator.row('Providers', `demo.${provider.name}`)
  t.match(await row.textContent(), '•••• saved')
  await row.getByRole('button', { name: 'Edit' }).click()
  const again = operator.dialog(`Edit provider demo.${provider.name}`)
  t.equal(await again.getByLabel('API key').inputValue(), '', 'the credential is not shown again')
  t.notMatch(await page.content(), provider.credential)
  await again.getByRole('button', { name: 'Cancel' }).click()
}

async function buildRoute(t: Test, { operator }: Journey): Promise<string> {
  const { page } = operator
  await draftRoute(operator, { workspace: 'demo', name: 'voice', entry: 'demo.openai/whisper-1' })
  await addEntry(operator, 'demo.deepgram/nova-3')
  const whisperFirst = ['Entry 1: demo.openai/whisper-1', 'Entry 2: demo.deepgram/nova-3']
  t.same(await entriesOf(operator), whisperFirst)
  await page.getByRole('button', { name: 'Move demo.openai/whisper-1' }).press('ArrowDown')
  await page.getByRole('article', { name: 'Entry 1: demo.deepgram/nova-3' }).waitFor()
  t.same(await entriesOf(operator), ['Entry 1: demo.deepgram/nova-3', 'Entry 2: demo.openai/whisper-1'])
  const grip = (model: string) => page.getByRole('button', { name: `Move demo.${model}` })
  await drag(page, grip('deepgram/nova-3'), grip('openai/whisper-1'))
  await page.getByRole('article', { name: 'Entry 1: demo.openai/whisper-1' }).waitFor()
  t.same(await entriesOf(operator), whisperFirst, 'moved by keys, and back by the mouse')

  const outcome = page.getByRole('region', { name: 'Preview result' })
  await outcome.getByText('demo.openai/whisper-1 is selected').waitFor()
  await page.getByRole('checkbox', { name: 'Diarization' }).check()
  await outcome.getByText('demo.deepgram/nova-3 is selected').waitFor()
  const left = page.getByRole('article', { name: 'Entry 1' }).getByText('Skipped:')
  t.match(await left.textContent(), 'diarization', 'and the other is left out, with the reason')
  await page.getByRole('article', { name: 'Entry 2' }).getByText('Selected').waitFor()
  await page.getByRole('checkbox', { name: 'Diarization' }).uncheck()
  await outcome.getByText('demo.openai/whisper-1 is selected').waitFor()
  await page.locator('[data-phase="same"]').waitFor()
  await page.getByRole('tab', { name: 'Changes' }).click()
  await page.getByRole('heading', { name: 'Side by side' }).waitFor()
  for (const model of ['whisper-1', 'nova-3'])
    await page.getByRole('tabpanel').getByText(model).filter({ visible: true }).first().waitFor()
  return publishRoute(operator, 'demo.voice', 'No app yet')
}

async function keepKey(t: Test, { operator }: Journey): Promise<string> {
  const { shown, key } = await makeKey(operator, 'traveller', 'web')
  t.match(key, /^lk_/)
  const stored = shown.getByLabel('I have stored the key')
  t.ok(await stored.isChecked(), 'who copied it has stored it')
  await stored.uncheck()
  t.ok(await shown.getByRole('button', { name: 'Done' }).isDisabled(), 'it stays until it is stored')
  await stored.check()
  await shown.getByRole('button', { name: 'Done' }).click()
  await operator.row('Keys', 'traveller').waitFor()
  t.notMatch(await operator.page.content(), key, 'and then it is gone')
  return key
}

async function callAndLook(t: Test, journey: Journey, key: string, version: string): Promise<void> {
  const { operator, openai } = journey
  const { page } = operator
  let served = await transcribe(journey.larkway, key)
  await waitUntil(async () => {
    if (served.status === 401) served = await transcribe(journey.larkway, key)
    return served.status !== 401
  }, SOON_MS)
  t.match(served, { status: 200, version }, 'the version that the page shows serves')
  openai.behave('whisper-1', { status: 503 })
  const { status, answer } = await transcribe(journey.larkway, key)
  openai.behave('whisper-1', {})
  t.equal(status, 200)
  t.match(answer.content, /^Heard [0-9a-f]{64} as audio\/wav\.$/, 'the second entry has served')

  await operator.go('Requests')
  const row = operator.row('Requests', 'after 1 failover').first()
  t.match(await row.textContent(), 'demo.deepgram/nova-3')
  await row.getByRole('link').click()
  await page.getByRole('heading', { level: 1, name: 'POST /v1/transcription' }).waitFor()
  const [failed, answered, ...more] = await page
    .getByRole('listitem')
    .filter({ hasText: /demo\.(openai|deepgram)\// })
    .allTextContents()
  t.match(failed, /demo\.openai\/whisper-1[\s\S]*503[\s\S]*\d ms[\s\S]*\w/, 'what failed, when and why')
  t.match(answered, /demo\.deepgram\/nova-3[\s\S]*\d ms[\s\S]*answered/)
  t.same(more, [])
  t.ok(await page.getByText(version).isVisible())
}

async function openPlayground({ operator }: Journey, app: string): Promise<void> {
  await operator.go('Playground')
  await operator.page.getByLabel('App', { exact: true }).selectOption(app)
}

async function hearLargeFile(t: Test, journey: Journey): Promise<void> {
  const { page } = journey.operator
  await openPlayground(journey, 'web')
  await dropFile(journey.operator, 'large.wav', filledWav(LARGE_BYTES, 1))
  await page.getByText('large.wav').first().waitFor()
  await throttle(journey.operator, 3_000_000)
  await page.getByRole('button', { name: 'Transcribe' }).click()
  const shares = await watchUpload(journey.operator)
  const onTheWay = shares.filter((share) => share > 0 && share < 1)
  t.ok(onTheWay.length >= 4, `the bar moved: ${shares.map((share) => share.toFixed(2)).join(' ')}`)
  t.same(
    shares,
    shares.toSorted((one, other) => one - other),
    'and never back',
  )
  const transcript = page.getByRole('group', { name: 'Transcript' })
  await transcript.getByText('lark').waitFor()
  t.equal((await transcript.textContent())?.trim(), 'the lark at break of day')
  await throttle(journey.operator, -1)

  const words = transcript.getByRole('button')
  t.equal(await words.count(), 6, 'each word has its time')
  await words.filter({ hasText: 'lark' }).click()
  const lit: string[] = []
  const sawAll = await waitUntil(async () => {
    const word = await transcript.evaluate((one) => one.querySelector('.play-now')?.textContent ?? '')
    if (word !== '' && word !== lit.at(-1)) lit.push(String(word))
    return word === 'day'
  })
  t.ok(sawAll && lit.length >= 3, `words are lit while it plays: ${lit.join(' ')}`)
}

async function cancelUpload(t: Test, journey: Journey): Promise<void> {
  const { larkway, operator } = journey
  const { page } = operator
  const closed = () => larkway.log.filter(({ status }) => status === 499)
  const before = closed().length
  await throttle(journey.operator, 1_200_000)
  await page.getByRole('button', { name: 'Transcribe' }).click()
  const bar = uploadBar(operator)
  t.ok(await waitUntil(async () => (await shareOf(bar)) > 0.2), 'part of it is sent')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('Cancelled during the upload.').waitFor()
  await throttle(journey.operator, -1)
  t.ok(await waitUntil(() => closed().length > before), 'the server knows that the caller left')
  t.match(closed().at(-1), { path: '/v1/transcription', error: 'CLIENT_CLOSED' })
  const isEmpty = async () => (await journey.metrics()).value('larkway_memory_used_bytes') === 0
  t.ok(await waitUntil(isEmpty), 'and holds nothing of it')
}

async function runSnippet(t: Test, journey: Journey, key: string): Promise<void> {
  const { operator, folder } = journey
  const { page } = operator
  await page.getByRole('button', { name: 'Change file' }).click()
  const file = { name: 'an "odd" name.wav', mimeType: 'audio/wav', buffer: wav([melody(2, 16_000)], 16_000) }
  await page.getByLabel('Drop an audio file').setInputFiles(file)
  await writeFile(join(folder, file.name), file.buffer)
  await page.getByLabel('Language').first().fill('en')
  await page.getByRole('button', { name: 'Copy Shell' }).click()
  const snippet = await clipboardOf(page)
  t.notMatch(snippet, key)
  // curl says the status on top of what the snippet asks for.
  await writeFile(join(folder, '.curlrc'), 'write-out = "\\n%{http_code}"\n')
  const env = { PATH: process.env.PATH, HOME: folder, LARKWAY_API_KEY: key }
  const { stdout } = await run('bash', ['-c', snippet], { cwd: folder, env })
  const [answer = '', status] = stdout.split('\n')
  t.equal(status, '200', snippet)
  t.equal((JSON.parse(answer) as { content: string }).content, 'the lark at break of day')
}

async function speak(t: Test, journey: Journey): Promise<void> {
  const { page } = journey.operator
  await page.getByLabel('App', { exact: true }).selectOption('demo')
  await page.getByRole('tab', { name: 'Speech' }).click()
  await page.getByLabel('Text').fill('lark')
  await page.getByLabel('Response format').last().fill('wav')
  await page.getByRole('button', { name: 'Speak' }).click()
  const player = page.getByLabel('Speech', { exact: true }).and(page.locator('audio'))
  await player.waitFor()
  await player.focus()
  await player.press('Space')
  const isHeard = async () => Number(await player.evaluate((one) => one.currentTime)) > 0.2
  t.ok(await waitUntil(isHeard), 'what was said is played')
}

async function rollBack(t: Test, journey: Journey, key: string, first: string): Promise<void> {
  const { operator } = journey
  const { page } = operator
  await operator.go('Routes')
  await operator.row('Routes', 'demo.voice').getByRole('link', { name: 'demo.voice' }).click()
  await page.getByRole('button', { name: 'Move demo.deepgram/nova-3' }).press('Home')
  await page.getByRole('article', { name: 'Entry 1: demo.deepgram/nova-3' }).waitFor()
  const second = await publishRoute(operator, 'demo.voice', 'web')
  t.not(second, first)
  const serves = (version: string) =>
    waitUntil(async () => (await transcribe(journey.larkway, key)).version === version, SOON_MS)
  t.ok(await serves(second), 'the second version serves')

  await page.getByRole('tab', { name: 'History' }).click()
  const old = operator.row('Versions', 'Version 1')
  await old.getByRole('button', { name: 'Roll back' }).click()
  const confirm = operator.dialog('Roll demo.voice back to version 1?')
  await confirm.getByText('Affects: web.').waitFor()
  await confirm.getByRole('button', { name: 'Roll back to version 1' }).click()
  await operator.told('demo.voice rolled back')
  t.ok(await serves(first), 'and the first one again, once rolled back')
  t.equal(await versionOf(operator), first)
  await operator.row('Versions', 'Version 3').getByText('live').waitFor()
}

async function revoke(t: Test, journey: Journey, key: string): Promise<void> {
  const { operator } = journey
  await operator.go('Keys')
  await operator.row('Keys', 'traveller').getByRole('button', { name: 'Revoke traveller' }).click()
  const confirm = operator.dialog('Revoke the key traveller?')
  await confirm.getByRole('button', { name: 'Revoke key' }).click()
  await operator.told('Key traveller revoked')
  const isRefused = async () => (await transcribe(journey.larkway, key)).status === 401
  t.ok(await waitUntil(isRefused, SOON_MS), 'it is refused within 5 s')
  await operator.row('Keys', 'traveller').getByText('revoked').waitFor()
}

/** All that was done, in its order; not the keys of an hour that the playground has made for itself. */
const AUDITED = [
  ...['provider.publish provider/demo.openai', 'provider.publish provider/demo.deepgram'],
  ...['route.draft route/demo.voice', 'route.publish route/demo.voice', 'app.publish app/demo/web'],
  'key.create key/key',
  ...['route.draft route/demo.voice', 'route.publish route/demo.voice', 'route.rollback route/demo.voice'],
  'key.revoke key/key',
]

async function audit(t: Test, { operator }: Journey): Promise<void> {
  await operator.go('Audit')
  const table = operator.page.getByRole('table', { name: 'Changes, newest first' })
  await table.waitFor()
  const rows = (await table.getByRole('row').all()).slice(1).reverse()
  const lines = await Promise.all(
    rows.map((row) => row.getByRole('cell').or(row.getByRole('rowheader')).allInnerTexts()),
  )
  const done = lines.map(([_when, action, target]) => `${action} ${target}`.replace(/_\w+$/, ''))
  t.same(done, AUDITED)
  for (const [when = '', _action, _target, who] of lines) {
    t.match(when, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\S*$/)
    t.match(who, /^operator\s+console$/, 'by whom, and by which way')
  }
}

/** Whatever a view has asked for goes with it, unheard. */
async function leaveWhileItLoads({ operator }: Journey): Promise<void> {
  const { page } = operator
  const held = /\/console\/api\/workspaces\/[^/]+\/(models|routes\/.+)$/
  await page.route(held, () => {})
  const asked = page.waitForRequest(held)
  await operator.go('Playground')
  await asked
  const ended = page.waitForEvent('requestfailed')
  await operator.go('Audit')
  await ended
  await page.unroute(held)
}

t.test(
  'the way of an operator through the console',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const journey = await openJourney(t)
    const { operator, openai, deepgramUrl } = journey
    // Each step needs those before it.
    const step = (name: string, take: (t: Test) => Promise<void>) =>
      t.test(name, { skip: !t.passing() }, take)
    await step('a key signs in', (t) => signIn(t, journey))
    await step('providers are added with their credentials', async (t) => {
      const own = { credential: OPENAI_KEY, address: openai.url }
      await provide(t, journey, { kind: 'openai', name: 'openai', ...own })
      const other = { credential: DEEPGRAM_KEY, address: deepgramUrl }
      await provide(t, journey, { kind: 'deepgram', name: 'deepgram', ...other })
    })
    let version = ''
    await step('a route is built, explained and published', async (t) => {
      version = await buildRoute(t, journey)
      t.match(version, /^pv_\w+/)
    })
    let key = ''
    await step('an app leads to it, and a key stands for the app', async (t) => {
      await makeApp(operator, 'web', 'demo.voice')
      key = await keepKey(t, journey)
    })
    await step('a call is served, and its attempts appear', (t) => callAndLook(t, journey, key, version))
    await step('a large file is dropped, sent and heard', (t) => hearLargeFile(t, journey))
    await step('an upload is cancelled', (t) => cancelUpload(t, journey))
    await step('the snippet does the same', (t) => runSnippet(t, journey, key))
    await step('a text is spoken', (t) => speak(t, journey))
    await step('a route is rolled back', (t) => rollBack(t, journey, key, version))
    await step('a key is revoked', (t) => revoke(t, journey, key))
    await step('the audit list tells all of it', (t) => audit(t, journey))
    await step('a view is left while it loads', () => leaveWhileItLoads(journey))
    t.same(operator.complaints.said, [])
    t.same(operator.complaints.failed, [])
    t.same([...operator.complaints.origins], [operator.origin])
  },
)

t.test(
  'what an admin publishes on one node is served by another',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const redis = await startRedis(t)
    const shared = { keys: consoleKeys(), sandboxOrigin: await openSandbox(t), env: { REDIS_URL: redis.url } }
    const [here, there] = await Promise.all([startConsoleNode(t, shared), startConsoleNode(t, shared)])
    const [admin, other] = [await openPerson(browser, here.url), await openPerson(browser, there.url)]
    for (const person of [admin, other]) {
      await person.signIn(shared.keys.admin)
      await person.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      t.match(person.page.url(), '/console/acme/overview')
    }
    t.equal(
      await admin.page.getByRole('navigation').getByText('Platform').count(),
      0,
      'an admin sees no platform',
    )
    await admin.page.goto('/console/workspaces')
    await admin.page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor()

    await draftRoute(admin, { workspace: 'acme', name: 'shared', entry: 'acme-own/morse-1' })
    const version = await publishRoute(admin, 'acme.shared', 'No app yet')
    await makeApp(admin, 'desk', 'acme.shared')
    const { key } = await makeKey(admin, 'two-nodes', 'desk')
    const begunMs = performance.now()
    const isServed = async () => (await transcribe(there, key)).version === version
    t.ok(
      await waitUntil(isServed, SOON_MS),
      `the other node serves it after ${Math.round(performance.now() - begunMs)} ms`,
    )
    await other.go('Routes')
    const row = other.row('Routes', 'acme.shared')
    await row.getByTitle(version).waitFor()
    t.pass('and its page shows it')
    for (const { complaints } of [admin, other]) t.same([...complaints.said, ...complaints.failed], [])
  },
)
