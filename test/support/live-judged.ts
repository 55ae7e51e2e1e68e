import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { startGateway } from './gateway.ts'
import { framesOf, type LiveAudio, liveAudio, silence, timesOff } from './live-audio.ts'
import { LiveClient } from './live-client.ts'
import type { LiveVendor, VendorServer } from './live-vendor.ts'
import { serveVendor } from './live-vendor.ts'
import { waitUntil } from './wait-until.ts'

/** A vendor as the gateway is configured for it. */
export interface JudgedVendor {
  readonly vendor: LiveVendor
  readonly kind: string
  readonly model: string
  readonly apiKey: string
  /** Behind the origin. */
  readonly basePath?: string
  /** More of the entry, such as facts of a model that is not listed. */
  readonly entry?: object
  /** It has times of words. */
  readonly hasTimes: boolean
  /** Else how far the times of its texts may be off, seconds. */
  readonly slack?: number
}

/** A session, and how it is to go. */
export interface Row {
  readonly name: string
  /** What the vendor is ordered to do; null: another provider dies, and the vendor goes on. */
  readonly faults: string | null
  readonly switches: number
  /** How long no audio comes behind the first sentence, ms. */
  readonly pauseMs?: number
}

/** Two sentences with a pause behind each that ends an utterance. */
export const JUDGED_AUDIO = joined(
  ['see the sea', 'it is me'].map((text) => liveAudio(text, { speed: 2 })),
  2,
)
export const JUDGED_TEXT = JUDGED_AUDIO.words.map(({ word }) => word).join(' ')

function joined(parts: readonly LiveAudio[], pauseSeconds: number): LiveAudio {
  const { sampleRate } = parts[0]!
  const pcm: Buffer[] = []
  const words: LiveAudio['words'][number][] = []
  let at = 0
  for (const part of parts) {
    const from = at
    words.push(...part.words.map((one) => ({ ...one, start: one.start + from, end: one.end + from })))
    pcm.push(part.pcm, silence(pauseSeconds, sampleRate))
    at += part.seconds + pauseSeconds
  }
  return { pcm: Buffer.concat(pcm), sampleRate, seconds: at, words }
}

/** In the pause behind the first sentence, and within the first word of the second. */
const PAUSE_MS = Math.round((JUDGED_AUDIO.words[2]!.end + 1.9) * 1000)

export const ROWS: readonly Row[] = [
  { name: 'sound', faults: '', switches: 0 },
  { name: 'reset in the middle of a word', faults: 'reset-in-word=5', switches: 1 },
  { name: 'closed behind a sentence', faults: `close-after-ms=${PAUSE_MS}`, switches: 1 },
  { name: 'silence', faults: `silent-after-ms=${PAUSE_MS}`, switches: 1 },
  { name: 'a handshake refused', faults: 'status=503', switches: 1 },
  { name: 'going on where another died', faults: null, switches: 1 },
]

interface Final {
  readonly segment: { readonly text: string; readonly start: number; readonly end: number }
  readonly words?: readonly { readonly word: string; readonly start: number; readonly end: number }[]
}

interface Done {
  readonly content: string
  readonly cost_usd: number
  readonly usage: { readonly audio_seconds: number; readonly billable_audio_seconds: number }
}

const plain = (text: string) => text.toLowerCase().replace(/[^a-z ]/g, '')

/** Streams the audio to the gateway at real time, and reads to the end of the session. */
async function speak(url: string, key: string, hasTimes: boolean, pauseMs: number): Promise<LiveClient> {
  const wanted = hasTimes ? '&timestamps=word' : ''
  const client = new LiveClient(`${url}/v1/transcription/stream?sample_rate=16000${wanted}`, ['larkway.v1'], {
    headers: { authorization: `Bearer ${key}` },
  })
  await client.open()
  let dueMs = performance.now()
  let sentMs = 0
  for (const frame of framesOf(JUDGED_AUDIO, 100)) {
    client.send(frame)
    sentMs += 100
    dueMs += sentMs === Math.ceil(PAUSE_MS / 100) * 100 ? 100 + pauseMs : 100
    await sleep(Math.max(0, dueMs - performance.now()))
  }
  client.send({ type: 'end' })
  await client.ended
  return client
}

async function startRoutes(t: Test, judged: JudgedVendor, rows: readonly Row[]) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const servers = await Promise.all(rows.map(() => serveVendor(t, judged.vendor)))
  const keys = rows.map(() => makeKey())
  const each = <T>(make: (row: Row, at: number) => T) =>
    Object.fromEntries(rows.map((row, at) => [`row-${at}`, make(row, at)]))
  const baseUrl = (server: VendorServer, faults: string | null) =>
    `${faults === null || faults === '' ? server.origin : server.faulty(faults)}${judged.basePath ?? ''}`
  const dying = sandbox.url.replace('/v1', '/x-sandbox/reset-in-word=2/v1')
  const { url } = await startGateway(t, {
    env: { UPSTREAM_KEY: judged.apiKey },
    config: {
      providers: {
        sound: { kind: 'sandbox', access: 'platform', base_url: sandbox.url },
        dying: { kind: 'sandbox', access: 'platform', base_url: dying },
        ...each((row, at) => ({
          kind: judged.kind,
          access: 'platform',
          base_url: baseUrl(servers[at]!, row.faults),
          api_key: `\${UPSTREAM_KEY}`,
        })),
      },
      routes: each((row, at) => {
        const own = { provider: `row-${at}`, model: judged.model, ...judged.entry }
        const [first, second] = row.faults === null ? ['dying', own] : [own, 'sound']
        const entries = [first, second].map((one) =>
          typeof one === 'string' ? { provider: one, model: 'morse-1' } : one,
        )
        return { workspace: 'acme', entries }
      }),
      workspaces: {
        acme: {
          credits_usd: 100,
          grant_id: 'initial',
          apps: each((_, at) => ({ route: `row-${at}` })),
          keys: rows.map((_, at) => ({
            id: `key_${at}`,
            app: `row-${at}`,
            sha256: hashKey(keys[at]!),
            scopes: ['inference'],
          })),
        },
      },
    },
  })
  return { url: url.replace('http', 'ws'), keys, servers }
}

/** Texts whose segment does not hold their words, or begins before the last one ended. */
function misplaced(finals: readonly Final[], slack: number): readonly Final[] {
  let [at, end] = [0, 0]
  return finals.filter(({ segment }) => {
    const from = at
    at += plain(segment.text).split(' ').length
    const words = JUDGED_AUDIO.words.slice(from, at)
    const isWithin =
      segment.start <= words[0]!.start + slack &&
      segment.end >= words.at(-1)!.end - slack &&
      segment.start >= end &&
      segment.start >= words[0]!.start - 3
    end = segment.end
    return !isWithin
  })
}

/** What one session told its caller, and what the vendor has to say of it. */
export interface Judged {
  readonly name: string
  readonly done: Done
  readonly server: VendorServer
}

/**
 * Tries an adapter over real sockets against a vendor that is as strict as the real one: every word once, in order and
 * in time, whatever the vendor dies of, and wherever it takes over.
 *
 * @returns the sessions, for what is to be said of money
 */
export async function judge(
  t: Test,
  judged: JudgedVendor,
  rows: readonly Row[] = ROWS,
): Promise<ReadonlyMap<string, Judged>> {
  const { url, keys, servers } = await startRoutes(t, judged, rows)
  const clients = await Promise.all(
    rows.map(({ pauseMs = 0 }, at) => speak(url, keys[at]!, judged.hasTimes, pauseMs)),
  )
  const all = new Map<string, Judged>()
  for (const [at, row] of rows.entries()) {
    const [client, server, { name }] = [clients[at]!, servers[at]!, row]
    const finals = client.ofType('final') as unknown as Final[]
    t.match(await client.ended, { code: 1000 }, name)
    t.equal(
      plain(finals.map(({ segment }) => segment.text).join(' ')),
      JUDGED_TEXT,
      `${name}: every word once`,
    )
    const done = client.messages.at(-1) as unknown as Done
    t.equal(plain(done.content ?? JSON.stringify(done)), JUDGED_TEXT, name)
    const switched = client.ofType('switched')
    t.equal(switched.length, row.switches, `${name}: switches`)
    t.ok(
      switched.every(({ lost_seconds }) => lost_seconds === 0),
      `${name}: nothing is lost`,
    )
    t.same(
      server.sessions.flatMap(({ refused }) => refused),
      [],
      `${name}: nothing was refused`,
    )
    if (row.faults === '') {
      const { record } = server.sessions[0]!.live
      await waitUntil(() => record.end !== null)
      t.match(record.end, { code: 1000 }, `${name}: in order`)
    }
    if (judged.hasTimes) {
      const off = timesOff(
        finals.flatMap(({ words = [] }) => words),
        JUDGED_AUDIO.words,
      )
      t.ok(off <= 0.05, `${name}: times are ${off} s off`)
    } else t.same(misplaced(finals, judged.slack ?? 0.05), [], `${name}: texts are where their words are`)
    all.set(name, { name, done, server })
  }
  return all
}
