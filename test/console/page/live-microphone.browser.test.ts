import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { MorseListener } from '../../../src/sandbox/live/morse-listener.ts'
import { SampleReader } from '../../../src/sandbox/live/samples.ts'
import { speak } from '../../../src/sandbox/speak.ts'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { axeFaults, faintTexts, namelessParts, overflowOf, tabFaults } from '../../support/page-checks.ts'
import { tempFolder } from '../../support/scratch.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { openPerson } from '../console-person.ts'

const SPOKEN = 'lark sees a lark'
/** Life of the first provider, in ms of audio. */
const DIES_MS = 3_000

type Json = Readonly<Record<string, unknown>>

/** The route of the app, at a provider that dies in the middle and one that does not. */
function withDyingEntry(config: Json): Json {
  const entry = { provider: 'acme-own', model: 'morse-1' }
  const voice = { workspace: 'acme', entries: [{ ...entry, options: { reset_after_ms: DIES_MS } }, entry] }
  return { ...config, routes: { ...(config.routes as object), voice } }
}

/**
 * The audio that a page sends, as a listener hears it who gets all of it in one session. A browser that is short of CPU
 * loses sound of its microphone, so that not even the spoken words are known before.
 */
class SentAudio {
  #bytes = Buffer.alloc(0)
  #rate = 0
  #isEnded = false
  /** Pieces after the message that says that none come. */
  late = 0

  constructor(page: Page) {
    page.on('websocket', (socket) => {
      this.#rate = Number(new URL(socket.url()).searchParams.get('sample_rate'))
      socket.on('framesent', ({ payload }) => {
        if (typeof payload === 'string') this.#isEnded ||= JSON.parse(payload).type === 'end'
        else if (this.#isEnded) this.late += 1
        else this.#bytes = Buffer.concat([this.#bytes, payload])
      })
    })
  }

  get seconds(): number {
    return this.#bytes.length / 2 / this.#rate
  }

  heard(): string {
    const words: string[] = []
    const nothing = () => {}
    const word = ({ text }: { readonly text: string }) => void words.push(text)
    const listener = new MorseListener(this.#rate, {
      word,
      tone: nothing,
      partial: nothing,
      advance: nothing,
    })
    const reader = new SampleReader({ encoding: 'linear16', sampleRate: this.#rate, channels: 1 }, false)
    reader.read(this.#bytes, (_, samples, count) => listener.push(samples, count))
    listener.flush()
    return words.join(' ')
  }
}

/** Runs in the page: holds it up at the next click, before what the click is for. */
function holdUpClick(ms: number): void {
  const hold = () => {
    const untilMs = performance.now() + ms
    while (performance.now() < untilMs);
  }
  globalThis.addEventListener('click', hold, { capture: true, once: true })
}

const flags = (file: string) => [
  '--use-fake-device-for-media-stream',
  '--use-fake-ui-for-media-stream',
  `--use-file-for-fake-audio-capture=${file}%noloop`,
]

t.test(
  'what the microphone hears is transcribed while it is heard',
  { skip: withoutServers, timeout: 180_000 },
  async (t) => {
    const node = await startConsoleNode(t, { config: withDyingEntry })
    const file = join(await tempFolder(t), 'spoken.wav')
    const wav = speak(SPOKEN, 600, 1)
    await writeFile(file, wav)
    const speakOnce = async () => {
      const person = await openPerson(await openBrowser(t, flags(file)), node.url)
      const { page } = person
      const sent = new SentAudio(page)
      await person.signIn(node.keys.admin)
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      await page.goto('/console/acme/playground?tab=live')
      const start = page.getByRole('button', { name: 'Start listening' })
      await start.waitFor()
      await page.keyboard.press('Tab')
      await start.focus()
      await page.keyboard.press('Enter')

      const stop = page.getByRole('button', { name: 'Stop' })
      await stop.waitFor()
      const focused = await page.evaluate('document.activeElement?.textContent')
      t.equal(focused, 'Stop', 'the next button has the focus as soon as it is there')
      await page.getByRole('meter', { name: 'Microphone level' }).waitFor()
      const level = async () => Number(await page.evaluate('document.querySelector("meter").value'))
      t.ok(await waitUntil(async () => (await level()) > 0.5, 10_000), 'the meter shows the sound')
      await page.locator('.play-live-partial').waitFor()
      t.same(await axeFaults(page), [], 'while it listens')
      t.same(await namelessParts(page), [], 'all parts have names')

      const log = page.getByRole('log', { name: 'Finished text' })
      await log.getByText('Provider switched from acme-own/morse-1').waitFor()
      t.match(await log.textContent(), /none lost/)
      const said = async () => (await log.locator('.play-live-said').allTextContents()).join('').trim()
      const spokenSeconds = wav.readUInt32LE(40) / wav.readUInt32LE(28)
      t.ok(await waitUntil(() => sent.seconds > spokenSeconds + 1, 60_000), 'all of it was sent')
      return { person, sent, stop, said }
    }
    let recording = await speakOnce()
    // A browser that is short of CPU loses sound, and who hears a word from its middle on hears another one.
    if (recording.sent.heard() !== SPOKEN) {
      await recording.stop.press('Enter')
      await recording.person.page.getByRole('heading', { name: 'Session' }).waitFor()
      await recording.person.page.close()
      recording = await speakOnce()
    }
    const { person, sent, stop, said } = recording
    const { page, complaints } = person
    t.ok(await waitUntil(async () => (await said()) === sent.heard(), 30_000), 'finished text stays')
    // Meanwhile the microphone still records: its audio reaches the page after the end.
    await page.evaluate(holdUpClick, 200)
    await stop.press('Enter')
    await page.getByRole('heading', { name: 'Session' }).waitFor()
    t.equal(sent.late, 0, 'no audio comes after its end')
    t.ok((await said()).length > SPOKEN.length / 2)
    t.equal(await said(), sent.heard(), 'every word once, through the change of the provider')

    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      t.same(await axeFaults(page), [], `axe, ${colorScheme}`)
      t.same(await faintTexts(page), [], `texts can be read, ${colorScheme}`)
    }
    t.same(await tabFaults(page), [], 'all is reached by the keyboard')
    await page.setViewportSize({ width: 375, height: 812 })
    t.equal(await overflowOf(page), 0, 'a phone shows all of it')

    t.same(complaints.said, [], 'nothing is refused, the worklet and the WebSocket among it')
    t.same(complaints.failed, [])
    const admin = await node.signIn(node.keys.admin)
    const recorded = async () =>
      ((await admin.get('/workspaces/acme/requests?all=true')).body.requests as Json[]).find(
        ({ path }) => path === '/v1/transcription/stream',
      )
    await waitUntil(async () => (await recorded()) !== undefined, 10_000)
    const record = await recorded()
    t.match(record, { status: 101, live: { switches: 1, lost_seconds: 0, ended: 'completed' } })
  },
)

t.test('a session that cannot be had is explained', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const node = await startConsoleNode(t, {
    config: (config) => {
      const dead = { provider: 'acme-own', model: 'morse-1', options: { status: 503 } }
      return {
        ...config,
        routes: { ...(config.routes as object), voice: { workspace: 'acme', entries: [dead] } },
      }
    },
  })
  const file = join(await tempFolder(t), 'spoken.wav')
  await writeFile(file, speak('e', 600, 1))
  const person = await openPerson(await openBrowser(t, flags(file)), node.url)
  const { page } = person
  await person.signIn(node.keys.admin)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.goto('/console/acme/playground?tab=live')
  await page.getByRole('button', { name: 'Start listening' }).click()
  const alert = page.getByRole('alert')
  await alert.getByText('UPSTREAM_ERROR').waitFor()
  await alert.getByRole('link', { name: /^View request/ }).waitFor()
  t.same(await axeFaults(page), [])
  await page
    .getByRole('button', { name: 'Start again' })
    .or(page.getByRole('button', { name: 'Start listening' }))
    .waitFor()
})
