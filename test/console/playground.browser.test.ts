import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { openBrowser } from '../support/browser.ts'
import { visit } from '../support/console-bench.ts'
import { scrape } from '../support/exposition.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { melody, wav } from '../support/tone.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { openPerson, type Person } from './console-person.ts'
import {
  clipboardOf,
  dropFile,
  publishRoute,
  SOON_MS,
  shareOf,
  throttle,
  transcribe,
  uploadBar,
  versionOf,
  watchUpload,
} from './console-work.ts'

const run = promisify(execFile)

const LARGE_BYTES = 8_000_000

interface Played {
  readonly larkway: Larkway
  readonly operator: Person
  readonly folder: string
  /** Bytes that the node holds. */
  heldBytes(): Promise<number | undefined>
}

/** Publishes `demo.voice` with two entries for the app `web`, and makes a key of it. */
async function prepare(t: Test, { url, key }: Larkway) {
  const operator = await visit(url, key)
  const put = async (method: string, path: string, body: object) => {
    const { status, text, body: made } = await operator.ask(method, `workspaces/demo/${path}`, body)
    if (status >= 300) throw new Error(`${path}: ${status} ${text}`)
    return made
  }
  const openai = { kind: 'openai', credential: 'sk-played', base_url: (await startUpstream(t)).url }
  const { url: deepgramUrl } = await startUpstream(t, { dialect: deepgramDialect() })
  const deepgram = { kind: 'deepgram', credential: DEEPGRAM_KEY, base_url: deepgramUrl }
  await put('PUT', 'providers/demo.openai', openai)
  await put('PUT', 'providers/demo.deepgram', deepgram)
  const entries = [
    { provider: 'demo.openai', model: 'whisper-1' },
    { provider: 'demo.deepgram', model: 'nova-3' },
  ]
  const route = await put('PUT', 'routes/demo.voice', { fields: { entries } })
  await put('PUT', 'apps/web', { route: 'demo.voice' })
  const made = await put('POST', 'keys', { name: 'player', app: 'web' })
  return { key: String(made.key), version: String((route.published as { version: string }).version) }
}

async function openPlayground({ operator }: Played, app: string): Promise<void> {
  await operator.go('Playground')
  await operator.page.getByLabel('App', { exact: true }).selectOption(app)
}

async function hearLargeFile(t: Test, played: Played): Promise<void> {
  const { page } = played.operator
  await openPlayground(played, 'web')
  await dropFile(played.operator, 'large.wav', filledWav(LARGE_BYTES, 1))
  await page.getByText('large.wav').first().waitFor()
  await throttle(played.operator, 3_000_000)
  await page.getByRole('button', { name: 'Transcribe', exact: true }).click()
  const shares = await watchUpload(played.operator)
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
  await throttle(played.operator, -1)

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

async function cancelUpload(t: Test, played: Played): Promise<void> {
  const { larkway, operator } = played
  const { page } = operator
  const closed = () => larkway.log.filter(({ status }) => status === 499)
  const before = closed().length
  await throttle(played.operator, 1_200_000)
  await page.getByRole('button', { name: 'Transcribe', exact: true }).click()
  const bar = uploadBar(operator)
  t.ok(await waitUntil(async () => (await shareOf(bar)) > 0.2), 'part of it is sent')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('Cancelled during the upload.').waitFor()
  await throttle(played.operator, -1)
  t.ok(await waitUntil(() => closed().length > before), 'the server knows that the caller left')
  t.match(closed().at(-1), { path: '/v1/transcription', error: 'CLIENT_CLOSED' })
  const isEmpty = async () => (await played.heldBytes()) === 0
  t.ok(await waitUntil(isEmpty), 'and holds nothing of it')
}

async function runSnippet(t: Test, played: Played, key: string): Promise<void> {
  const { operator, folder } = played
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

async function speak(t: Test, played: Played): Promise<void> {
  const { page } = played.operator
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

async function rollBack(t: Test, played: Played, key: string, first: string): Promise<void> {
  const { operator } = played
  const { page } = operator
  await operator.go('Routes')
  await operator.row('Routes', 'demo.voice').getByRole('link', { name: 'demo.voice' }).click()
  await page.getByRole('button', { name: 'Move demo.deepgram/nova-3' }).press('Home')
  await page.getByRole('article', { name: 'Entry 1: demo.deepgram/nova-3' }).waitFor()
  const second = await publishRoute(operator, 'demo.voice', 'web')
  t.not(second, first)
  const serves = (version: string) =>
    waitUntil(async () => (await transcribe(played.larkway, key)).version === version, SOON_MS)
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

t.test('the playground, and a version rolled back', { skip: withoutServers, timeout: 240_000 }, async (t) => {
  const larkway = await startLarkway(t, { env: { LARKWAY_METRICS_PORT: '0' } })
  const metricsPort = Number(larkway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const { key, version } = await prepare(t, larkway)
  const browser = await openBrowser(t, ['--autoplay-policy=no-user-gesture-required'])
  const operator = await openPerson(browser, larkway.url)
  const heldBytes = async () => (await scrape(metricsPort)).value('larkway_memory_used_bytes')
  const played = { larkway, operator, folder: await tempFolder(t), heldBytes }
  await operator.signIn(larkway.key)
  await operator.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  // Each step needs those before it.
  const step = (name: string, take: (t: Test) => Promise<void>) => t.test(name, { skip: !t.passing() }, take)
  await step('a large file is dropped, sent and heard', (t) => hearLargeFile(t, played))
  await step('an upload is cancelled', (t) => cancelUpload(t, played))
  await step('the snippet does the same', (t) => runSnippet(t, played, key))
  await step('a text is spoken', (t) => speak(t, played))
  await step('a route is rolled back', (t) => rollBack(t, played, key, version))
  t.same(operator.complaints.said, [])
  t.same(operator.complaints.failed, [])
  t.same([...operator.complaints.origins], [operator.origin])
})
