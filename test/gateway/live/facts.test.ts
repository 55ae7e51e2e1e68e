import { SpanKind } from '@opentelemetry/api'
import { AlwaysOnSampler, type ReadableSpan, TracerProvider } from '@opentelemetry/sdk-trace'
import { type Test, test } from 'tap'
import type { RequestRecord } from '../../../src/contracts/console.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import type { EndedCall, EndedExchange } from '../../../src/contracts/recorder.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import type { Tracing } from '../../../src/contracts/tracing.ts'
import { LiveMetrics } from '../../../src/gateway/observe/metrics/live-metrics.ts'
import { requestRecord } from '../../../src/gateway/observe/recorder/record.ts'
import { CallTrace } from '../../../src/gateway/observe/tracing/call-trace.ts'
import { readExposition } from '../../support/exposition.ts'
import { openLive, wordsEntry } from '../../support/live-rig.ts'
import { RATE, serveWords, wordsAudio } from '../../support/live-words.ts'
import { openSpeech, serveVoice, voiceEntry } from '../../support/speech-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** Keeps what the log, the recorder and the receiver of spans are told. */
function watchers() {
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
        ...{ name, kind: SpanKind.SERVER, facts: {}, elapsedMs, caller: null, clock: systemClock },
      }),
    job: () => {
      throw new Error('there are no jobs')
    },
    close: async () => {},
  }
  const needs = {
    log: createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) }),
    tracing,
    recorder: {
      answered: () => null,
      ended: (exchange: EndedExchange, call: EndedCall) =>
        void records.push(requestRecord(exchange, call, null, 0)),
      wentOn() {},
      ran() {},
    },
  }
  return { needs, lines, records, spans }
}

async function openWatched(t: Test, ...origins: string[]) {
  const { needs, ...told } = watchers()
  const entries = origins.map((origin, index) => wordsEntry(origin, `entry${index}`))
  return { rig: await openLive(t, entries, { needs }), ...told }
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

test('the line, the record, the span, the list and the metrics of a session that speaks', async (t) => {
  const ill = await serveVoice(t, (_, count) => (count >= 1 ? { status: 500 } : {}))
  const sound = await serveVoice(t)
  const { needs, lines, records, spans } = watchers()
  const watch = new LiveMetrics()
  const entries = [voiceEntry(ill, 'ill'), voiceEntry(sound, 'sound')]
  const rig = await openSpeech(t, entries, { needs, watch })
  const caller = rig.connect()
  await caller.message('ready')
  t.match(rig.live.samples(), [{ id: /^live_/, entry: null, characters: 0, switches: 0, costUsd: 0 }])
  const texts = ['One lark.', 'Two larks.', 'Three larks.']
  caller.write(texts.join(' '))
  caller.send({ type: 'flush' })
  await caller.message('flushed')
  const [sample] = rig.live.samples()
  const characters = texts.join('').length
  t.match(sample, { entry: { provider: 'sound', model: 'model' }, characters, audioSeconds: 0 })
  t.equal(sample?.switches, 1)
  caller.end()
  t.match(await caller.message('done'), { usage: { audio_output_characters: characters } })
  await waitUntil(() => lines.length > 0)
  const { switches } = sample!
  t.match(lines, [
    { status: 101, session_end: 'completed', switches, usage: { audio_output_characters: characters } },
  ])
  t.notOk('lost_seconds' in lines[0]!, 'no audio of the caller is there to be lost')
  t.match(records, [{ live: { ended: 'completed', switches, characters } }])
  t.notMatch(JSON.stringify([lines, records]), /larks/, 'nothing of the text is told')
  const root = spans.find(({ kind }) => kind === SpanKind.SERVER)
  t.same(root?.events.map(({ name }) => name).slice(-1), ['live.ended'])
  t.equal(root?.events.filter(({ name }) => name === 'live.switched').length, switches)
  const { value } = readExposition(watch.families.flatMap((family) => [...family.render()]).join(''))
  t.equal(value('larkway_live_sessions_ended_total', { kind: 'speech', end: 'completed' }), 1)
  t.equal(value('larkway_live_spoken_characters_total'), characters)
  t.equal(value('larkway_live_first_audio_seconds_count'), texts.length)
  t.equal(value('larkway_live_voice_switches_total'), switches)
  t.same(rig.live.samples(), [])
})

test('a session that speaks is ended from outside: what came is spoken', async (t) => {
  const voice = await serveVoice(t)
  const { needs, lines } = watchers()
  const rig = await openSpeech(t, [voiceEntry(voice, 'voice')], { needs })
  const caller = rig.connect()
  await caller.message('ready')
  caller.write('One lark. Two')
  await caller.message('spoken')
  rig.live.find(rig.live.list()[0]!.id)?.session.stop()
  caller.write(' larks that nobody hears')
  t.match(await caller.message('going_away'), { seconds: 0, reason: 'operator' })
  await caller.message('done')
  t.equal(await caller.closed, 1000)
  t.same(voice.asked, ['One lark.', 'Two'])
  await waitUntil(() => lines.length > 0)
  t.match(lines, [{ session_end: 'operator' }])
})
