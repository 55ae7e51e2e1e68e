import t from 'tap'
import { callAdvice, TransferRate } from '../../../src/console/page/views/playground/calls.ts'
import { abilitiesOf, keeps } from '../../../src/console/page/views/playground/options.ts'
import {
  microphoneTrouble,
  recordingName,
  recordingType,
} from '../../../src/console/page/views/playground/recording.ts'

import { ERRORS } from '../../../src/contracts/errors.ts'

t.test('the rate of an upload follows the last seconds', async (t) => {
  const rate = new TransferRate(10_000_000, 0)
  t.same(rate.note(0, 10), { sentBytes: 0, totalBytes: 10_000_000, bytesPerSecond: null, secondsLeft: null })
  t.equal(rate.note(1_000_000, 1_000).bytesPerSecond, 1_000_000)
  t.equal(rate.note(2_000_000, 2_000).secondsLeft, 8)
  for (let second = 3; second <= 10; second++) rate.note(2_000_000 + (second - 2) * 100_000, second * 1_000)
  const slow = rate.note(2_900_000, 11_000)
  t.ok(Math.abs((slow.bytesPerSecond ?? 0) - 100_000) < 1_000, 'the fast beginning is forgotten')
  const stalled = [12, 13, 14, 15].map((second) => rate.note(2_900_000, second * 1_000)).at(-1)
  t.equal(stalled?.bytesPerSecond, 0)
  t.equal(stalled?.secondsLeft, null, 'it is not known')
  t.equal(rate.note(1_000, 16_000).sentBytes, 2_900_000, 'it does not run backwards')
  t.equal(rate.note(99_000_000, 17_000).sentBytes, 10_000_000, 'nor over the end')
})

t.test('a recording is named as what it is', async (t) => {
  const at = new Date('2026-11-20T09:08:07.123Z')
  const only = (type: string) => recordingType((asked) => asked === type)
  t.equal(
    recordingType(() => true),
    'audio/webm;codecs=opus',
  )
  t.equal(only('audio/mp4'), 'audio/mp4')
  t.equal(only('audio/wav'), null)
  t.equal(recordingName('audio/webm;codecs=opus', at), 'recording-20261120-090807.webm')
  t.equal(recordingName('audio/mp4', at), 'recording-20261120-090807.m4a')
  for (const name of ['NotAllowedError', 'NotFoundError', 'NotReadableError', 'TypeError'])
    t.match(microphoneTrouble(name), /drop a file instead/i)
})

t.test('every error has a next step', async (t) => {
  for (const code of Object.keys(ERRORS)) t.ok(callAdvice(code).length > 20, code)
  t.match(callAdvice('SOMETHING_NEW'), /request ID/)
})

const MODELS = {
  providers: [
    {
      name: 'whisper',
      kind: 'openai-compatible',
      access: 'platform' as const,
      open: true,
      models: [
        {
          model: 'large-v3',
          capabilities: ['audio_input' as const],
          features: ['word_timestamps' as const],
          hints: [],
          price: null,
          translates: true,
        },
        {
          model: 'tts',
          capabilities: ['audio_output' as const],
          features: [],
          hints: [],
          price: null,
          translates: false,
        },
      ],
    },
  ],
}
const routeOf = (...entries: { provider: string; model: string; features?: 'diarization'[] }[]) => ({
  name: 'voice',
  workspace: 'acme',
  managed_by: 'console' as const,
  apps: ['web'],
  draft: null,
  published: {
    number: 1,
    version: 'pv_1',
    published_at: null,
    published_by: null,
    note: null,
    fields: { workspace: 'acme', entries },
  },
})

t.test('what the route of an app can do', async (t) => {
  const voice = abilitiesOf(
    routeOf({ provider: 'whisper', model: 'large-v3' }, { provider: 'whisper', model: 'tts' }),
    MODELS,
  )
  t.match(voice, { transcribes: true, speaks: true, entries: ['whisper/large-v3', 'whisper/tts'] })
  t.ok(keeps(voice, 'word_timestamps'))
  t.notOk(keeps(voice, 'diarization'))
  const deaf = abilitiesOf(routeOf({ provider: 'whisper', model: 'tts' }), MODELS)
  t.match(deaf, { transcribes: false, speaks: true })
  const declared = abilitiesOf(
    routeOf({ provider: 'whisper', model: 'large-v3', features: ['diarization'] }),
    MODELS,
  )
  t.ok(keeps(declared, 'diarization'), 'what the entry declares wins')
  t.notOk(keeps(declared, 'word_timestamps'))
  const unknown = abilitiesOf(routeOf({ provider: 'whisper', model: 'new' }), MODELS)
  t.ok(keeps(unknown, 'diarization'), 'of an unknown model nothing is said')
  t.equal(abilitiesOf({ ...routeOf(), published: null }, MODELS), null)
  t.ok(keeps(null, 'diarization'))
})
