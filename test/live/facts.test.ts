import { SpanKind } from '@opentelemetry/api'
import { AlwaysOnSampler, type ReadableSpan, TracerProvider } from '@opentelemetry/sdk-trace'
import { type Test, test } from 'tap'
import type { RequestRecord } from '../../src/contracts/console.ts'
import type { Tracing } from '../../src/contracts/tracing.ts'
import { createLogger } from '../../src/log.ts'
import { requestRecord } from '../../src/recorder/record.ts'
import { CallTrace } from '../../src/tracing/call-trace.ts'
import { openLive, wordsEntry } from '../support/live-rig.ts'
import { RATE, serveWords, wordsAudio } from '../support/live-words.ts'
import { waitUntil } from '../support/wait-until.ts'

/** A rig that keeps what the log, the recorder and the receiver of spans are told. */
async function openWatched(t: Test, ...origins: string[]) {
  const lines: Record<string, unknown>[] = []
  const records: RequestRecord[] = []
  const spans: ReadableSpan[] = []
  const provider = new TracerProvider({
    sampler: new AlwaysOnSampler(),
    spanProcessors: [
      {
        onStart() {},
        onEnd: (span) => void spans.push(span),
        forceFlush: async () => {},
        shutdown: async () => {},
      },
    ],
  })
  const tracing: Tracing = {
    request: ({ elapsedMs }, name) =>
      new CallTrace(provider.getTracer('test'), {
        ...{ name, kind: SpanKind.SERVER, facts: {}, elapsedMs, caller: null },
      }),
    job: () => {
      throw new Error('there are no jobs')
    },
    close: async () => {},
  }
  const rig = await openLive(
    t,
    origins.map((origin, index) => wordsEntry(origin, `entry${index}`)),
    {
      needs: {
        log: createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) }),
        tracing,
        recorder: {
          answered: () => null,
          ended: (exchange, call) => void records.push(requestRecord(exchange, call, null)),
          wentOn() {},
          ran() {},
        },
      },
    },
  )
  return { rig, lines, records, spans }
}

test('the line, the record and the span of a session tell what became of it', async (t) => {
  const dying = await serveWords(t, { death: () => ({ how: 'reset', afterSeconds: 1.25 }) })
  const sound = await serveWords(t)
  const { rig, lines, records, spans } = await openWatched(t, dying.origin, sound.origin)
  const caller = rig.connect(`sample_rate=${RATE}`)
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 10), 2)
  caller.send({ type: 'end' })
  await caller.message('done')
  await caller.closed
  await waitUntil(() => lines.length > 0)
  const [line] = lines
  const facts = { switches: 1, lost_seconds: 0 }
  t.match(line, {
    msg: 'request',
    status: 101,
    session_end: 'completed',
    ...facts,
    usage: { audio_seconds: 4 },
  })
  t.match(line?.attempts, [
    { provider: 'entry0', reason: 'the connection broke' },
    { provider: 'entry1', reason: 'ok' },
  ])
  const replayed = Number(line?.replayed_seconds)
  t.ok(replayed > 0 && replayed < 4, `${replayed} s were sent again`)
  t.notMatch(JSON.stringify([lines, records]), /w1\b/, 'nothing of the text is told')

  t.match(records, [{ live: { ...facts, ended: 'completed', audio_seconds: 4, replayed_seconds: replayed } }])

  const root = spans.find(({ kind }) => kind === SpanKind.SERVER)
  t.same(
    root?.events.map(({ name, attributes }) => [name, attributes?.['larkway.provider'] ?? null]),
    [
      ['live.connected', 'entry0'],
      ['live.connected', 'entry1'],
      ['live.switched', 'entry1'],
      ['live.ended', null],
    ],
  )
  t.match(root?.attributes, { 'larkway.live.end': 'completed', 'larkway.live.switches': 1 })
})

test('a session is ended from outside with what was said, and audio that still comes is no mistake', async (t) => {
  const provider = await serveWords(t)
  const { rig, lines } = await openWatched(t, provider.origin)
  const caller = rig.connect()
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 5), 2)
  const [opened] = rig.live.list()
  opened?.session.stop()
  caller.send(wordsAudio(5, 6))
  t.match(await caller.message('going_away'), { seconds: 0, reason: 'operator' })
  t.match(await caller.message('done'), { usage: { audio_seconds: 2 } })
  t.equal(await caller.closed, 1000)
  await waitUntil(() => lines.length > 0)
  t.match(lines, [{ session_end: 'operator' }])
})

test('a caller that leaves, and a session that fails', async (t) => {
  const provider = await serveWords(t)
  const { rig, lines } = await openWatched(t, provider.origin)
  const leaving = rig.connect()
  await leaving.message('ready')
  leaving.socket.terminate()
  await waitUntil(() => lines.length === 1)
  const odd = rig.connect()
  await odd.message('ready')
  odd.send(Buffer.alloc(3))
  await odd.closed
  await waitUntil(() => lines.length === 2)
  t.match(lines, [
    { session_end: 'client_left', error: 'CLIENT_CLOSED' },
    { session_end: 'failed', error: 'INVALID_REQUEST' },
  ])
})
