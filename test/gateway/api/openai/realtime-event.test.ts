import { test } from 'tap'
import { readClientEvent } from '../../../../src/gateway/api/openai/realtime-event.ts'
import { RealtimeItems, type SendEvent } from '../../../../src/gateway/api/openai/realtime-items.ts'
import { WholeFrames } from '../../../../src/gateway/media/pcm.ts'

const read = (text: string) => {
  const { event, audio } = readClientEvent(Buffer.from(text))
  return { event, audio: audio?.toString('hex') ?? null }
}
const TYPE = '"type":"input_audio_buffer.append"'

test('audio is found however an event is written', async (t) => {
  const expected = { event: { type: 'input_audio_buffer.append' }, audio: 'fffefd' }
  for (const text of [
    `{${TYPE},"audio":"//79"}`,
    `{"audio": "//79", ${TYPE}}`,
    `{"audio":"\\/\\/79",${TYPE}}`,
    `{"audio":"__79",${TYPE}}`,
    `{"audio":"//\\n79",${TYPE}}`,
    `{"event_id":"ä\\"audio\\":\\"AAAA\\"",${TYPE},"audio":"//79"}`,
  ])
    t.match(read(text), expected, text)
  t.equal(read(`{"event_id":"ä",${TYPE},"audio":"AAAA"}`).event.event_id, 'ä')
  t.equal(read(`{${TYPE},"audio":"AA=="}`).audio, '00')
  t.equal(read(`{${TYPE},"audio":"AA"}`).audio, '00', 'without padding')
  const nested = '{"type":"session.update","session":{"type":"transcription","audio":{"input":{}}}}'
  t.match(read(nested), { event: { session: { audio: { input: {} } } }, audio: null })
  t.equal(read(`{${TYPE},"nested":{"audio":"AAAA"}}`).audio, null, 'it is not the event’s own')
})

test('what is no audio is refused', async (t) => {
  for (const text of [
    `{${TYPE},"audio":"A"}`,
    `{${TYPE},"audio":"AA=A"}`,
    `{${TYPE},"audio":"AAA&"}`,
    `{${TYPE},"audio":"AAAA","audio":"BBBB"}`,
    `{${TYPE},"audio":""}`,
    `{${TYPE},"audio":"AAAA"`,
    `{${TYPE},"audio":"AAAA"}}`,
    `[{"audio":"AAAA"}]`,
  ])
    t.throws(() => read(text), { code: 'INVALID_REQUEST' }, text)
})

function items() {
  const told: string[] = []
  const send: SendEvent = ({ type, delta, transcript, usage }) => {
    const short = type.split('.').at(-1)!
    const text = delta ?? transcript
    const { seconds } = (usage ?? {}) as { seconds?: number }
    told.push(
      [short, ...(text === undefined ? [] : [`"${text}"`]), ...(seconds === undefined ? [] : [seconds])].join(
        ' ',
      ),
    )
  }
  return { items: new RealtimeItems('sess_1', send), told: () => told.splice(0) }
}
const segment = (start: number, end: number, text: string) => ({ id: 0, start, end, text })

test('deltas say what is agreed on, and take nothing back', async (t) => {
  const { items: one, told } = items()
  one.partial('hello', 0.1, true)
  one.partial('hello wor', 0.1, true)
  t.same(told(), ['speech_started', 'delta "hello"'])
  one.partial('hello world how', 0.1, true)
  t.same(told(), [], 'the last word has become longer')
  one.partial('hello world how are', 0.1, true)
  t.same(told(), ['delta " world how"'])
  one.final(segment(0.1, 2, ' hello world how are you?'), true)
  t.same(told(), [
    'delta " are you?"',
    ...['speech_stopped', 'committed', 'added', 'done'],
    'completed "hello world how are you?" 2',
  ])
  one.partial('a b c', 3, true)
  one.partial('a b c', 3, true)
  one.final(segment(3, 4, 'A different text'), true)
  t.same(told(), [
    'speech_started',
    'delta "a b"',
    ...['speech_stopped', 'committed', 'added', 'done'],
    'completed "A different text" 2',
  ])
})

test('a commit gets what was said before it, in its order', async (t) => {
  const { items: one, told } = items()
  one.final(segment(0, 1, 'one'), false)
  one.commit(1.5)
  one.clear(2)
  one.commit(3)
  t.same(told(), ['delta "one"', 'committed', 'added', 'done', 'committed', 'added', 'done'])
  one.final(segment(1, 1.4, 'two'), false)
  one.finalized()
  t.same(told(), ['delta " two"', 'completed "one two" 1.5'])
  one.final(segment(1.5, 2, 'cleared'), false)
  one.finalized()
  t.same(told(), [], 'what was cleared is not told')
  one.failed({ code: 'UPSTREAM_ERROR' })
  one.failed({ code: 'UPSTREAM_ERROR' })
  t.same(told(), ['failed'])
})

test('bytes become whole samples wherever they are cut', async (t) => {
  const frames = new WholeFrames({ encoding: 'pcm_s16le', sampleRate: 8000, channels: 2 })
  const bytes = Buffer.from(Array.from({ length: 40 }, (_, at) => at))
  const pieces: Uint8Array[] = []
  for (const [from, to] of [
    [0, 1],
    [1, 3],
    [3, 4],
    [4, 13],
    [13, 13],
    [13, 40],
  ] as const) {
    // Copied, as what comes from a socket is valid during the call only.
    const given = Buffer.from(bytes.subarray(from, to))
    const taken = Buffer.from(frames.take(given))
    given.fill(255)
    t.equal(taken.length % 4, 0)
    pieces.push(taken)
  }
  t.ok(Buffer.concat(pieces).equals(bytes))
})
