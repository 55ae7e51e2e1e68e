import { CloseContext } from '@elevenlabs/elevenlabs-js/serialization/types/CloseContext.js'
import { CloseSocket } from '@elevenlabs/elevenlabs-js/serialization/types/CloseSocket.js'
import { InitializeConnectionMulti } from '@elevenlabs/elevenlabs-js/serialization/types/InitializeConnectionMulti.js'
import { SendTextMulti } from '@elevenlabs/elevenlabs-js/serialization/types/SendTextMulti.js'
import fc from 'fast-check'
import t from 'tap'
import type { SpeechCall } from '../../../../src/contracts/calls.ts'
import { elevenlabs } from '../../../../src/gateway/providers/elevenlabs/provider.ts'
import { liveTarget } from '../../../support/live.ts'

const live = elevenlabs.liveSpeech!
const target = liveTarget('eleven_flash_v2_5', { baseUrl: 'https://api.elevenlabs.io' })

function call(overrides: Partial<SpeechCall> = {}): SpeechCall {
  return {
    input: 'a',
    voice: null,
    speed: null,
    seed: null,
    response_format: 'pcm',
    ...overrides,
  } as SpeechCall
}

/** Messages as elevenlabs-js 2.73.0 serialization/types/AudioOutputMulti.js and FinalOutputMulti.js have them. */
const audio = (contextId: string, bytes: string) => ({
  audio: Buffer.from(bytes).toString('base64'),
  normalizedAlignment: null,
  alignment: { chars: ['a'], charStartTimesMs: [0], charDurationsMs: [9] },
  contextId,
})
const final = (contextId: string) => ({ audio: null, isFinal: true, contextId })
/** As the provider has said it: elevenlabs-docs#426, livekit/agents#218, livekit/agents-js#1985. */
const TIMEOUT = { message: 'Have not received a new text input', error: 'input_timeout_exceeded', code: 1008 }
const BUSY = { message: 'Maximum simultaneous contexts', error: 'max_active_conversations', code: 1008 }

t.test('options become the address', async (t) => {
  const { url, headers, protocols } = live.handshake(call({ voice: 'a_b', response_format: 'mp3' }), target)
  t.equal(
    url,
    'wss://api.elevenlabs.io/v1/text-to-speech/a_b/multi-stream-input' +
      '?model_id=eleven_flash_v2_5&output_format=mp3_44100_128&inactivity_timeout=180',
  )
  t.same(headers, { 'xi-api-key': 'k' })
  t.same(protocols, [])
  t.equal(live.mediaType(call({ response_format: 'pcm_16000' })), 'audio/pcm;rate=16000')
})

t.test('what it does not keep is for requests', async (t) => {
  for (const [overrides, param] of [
    [{ seed: 1 }, 'seed'],
    [{ response_format: 'wav_24000' }, 'response_format'],
    [{ response_format: 'opus_48000_64' }, 'response_format'],
    [{ response_format: 'flac' }, 'response_format'],
    [{ speed: 2 }, 'speed'],
    [{ voice: 'a/b' }, 'voice'],
  ] as const)
    t.match(live.unsupported(call(overrides), target), { why: 'field', param }, param)
  t.match(live.unsupported(call(), liveTarget('eleven_v3')), { param: 'model' })
  for (const response_format of ['mp3', 'pcm', 'mp3_22050_32', 'pcm_16000', 'ulaw_8000', 'alaw_8000'])
    t.equal(
      live.unsupported(call({ response_format, speed: 1.2, voice: 'x' }), target),
      null,
      response_format,
    )
})

t.test('a sentence is a context, which is flushed and closed', async (t) => {
  const stepper = live.connect(call({ speed: 1.1 }))
  const frames = stepper.speak(3, 'Hello "you".')
  t.same(frames, [
    '{"text":" ","voice_settings":{"speed":1.1},"context_id":"s3"}',
    '{"text":"Hello \\"you\\". ","context_id":"s3","flush":true}',
    '{"context_id":"s3","close_context":true}',
  ])
  t.same(live.connect(call()).speak(0, 'a')[0], '{"text":" ","context_id":"s0"}')
  t.same(stepper.end(), ['{"close_socket":true}'])
  const types = [InitializeConnectionMulti, SendTextMulti, CloseContext, CloseSocket]
  for (const [index, frame] of [...frames, ...stepper.end()].entries()) {
    const read = types[index]!.parse(JSON.parse(String(frame)), { unrecognizedObjectKeys: 'fail' })
    t.equal(read.ok, true, `${frame} is a message of the provider's own client`)
  }
})

t.test('audio and its end are those of a sentence', async (t) => {
  const stepper = live.connect(call())
  stepper.speak(0, 'one')
  stepper.speak(1, 'two')
  const hear = (message: object) => stepper.received(JSON.stringify(message))
  t.same(hear(audio('s0', 'ab')), [{ kind: 'audio', sentence: 0, bytes: Buffer.from('ab') }])
  t.same(hear(audio('s1', 'xy')), [{ kind: 'audio', sentence: 1, bytes: Buffer.from('xy') }])
  t.same(hear({ ...audio('s0', 'c'), isFinal: true }), [
    { kind: 'audio', sentence: 0, bytes: Buffer.from('c') },
    { kind: 'spoken', sentence: 0 },
  ])
  t.same(hear(final('s1')), [{ kind: 'spoken', sentence: 1 }])
  for (const message of [
    final('s1'),
    audio('s1', 'z'),
    audio('s7', 'z'),
    audio('default', 'z'),
    {},
    audio('s', ''),
  ])
    t.same(hear(message), [], 'of no sentence that is under way')
  t.same(stepper.received(Buffer.from('ab')), [])
  t.same(stepper.received('{'), [])
})

t.test('errors', async (t) => {
  const failed = (message: object) => live.connect(call()).received(JSON.stringify(message))
  t.match(failed(TIMEOUT), [{ kind: 'failed', failure: { status: null } }])
  t.match(failed(BUSY), [{ kind: 'failed' }])
  t.match(live.connect(call()).closed(1011, ''), { kind: 'server' })
  t.equal(live.refused({ status: 401, headers: {}, body: [] }).kind, 'credential')
})

const hostile = fc.constantFrom<unknown>(
  ...[null, true, '', 'x', -1, 1e308, [], {}, '__proto__', 's-1', 's1e3', 's0'],
)
const message = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.record(
      {
        audio: fc.oneof({ weight: 6, arbitrary: fc.base64String() }, hostile),
        contextId: fc.oneof({ weight: 9, arbitrary: fc.constantFrom('s0', 's1', 's2', 's3') }, hostile),
        isFinal: fc.oneof(fc.constantFrom(true, null), hostile),
        error: fc.oneof({ weight: 1, arbitrary: hostile }, { weight: 20, arbitrary: fc.constant(null) }),
        message: hostile,
      },
      { requiredKeys: ['contextId', 'audio'] },
    ),
  },
  hostile,
)
const frame = fc.oneof(
  { weight: 6, arbitrary: message.map((value) => JSON.stringify(value) ?? '') },
  { weight: 1, arbitrary: fc.string() },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 64 }) },
)

t.test('no frame makes it throw, or say anything of a sentence that is not under way', async (t) => {
  let events = 0
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ weight: 3, arbitrary: frame }, fc.constant(null)), { maxLength: 30 }),
      (steps) => {
        const stepper = live.connect(call())
        const open = new Set<number>()
        let next = 0
        for (const step of steps) {
          if (step === null) {
            stepper.speak(next, 'text')
            open.add(next)
            next += 1
            continue
          }
          for (const event of stepper.received(step)) {
            events += 1
            if (event.kind === 'failed') {
              if (event.failure.status !== null) return false
              continue
            }
            if (!open.has(event.sentence)) return false
            if (event.kind === 'audio' && event.bytes.length === 0) return false
            if (event.kind === 'spoken') open.delete(event.sentence)
          }
        }
        return typeof stepper.closed(1006, '').kind === 'string'
      },
    ),
    { numRuns: 2_000 },
  )
  t.ok(events > 500, `${events} events`)
})
