import t, { type Test } from 'tap'
import { CAPABILITIES } from '../../../src/contracts/calls.ts'
import type { ModelLimits } from '../../../src/contracts/facts.ts'
import { type Calls, OPERATION_NAMES, type OperationName } from '../../../src/contracts/operations.ts'
import { voiceAt } from '../../../src/gateway/call/select/eligibility.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { speechCall, transcriptionCall } from '../../support/call.ts'
import { facts } from '../../support/catalog.ts'
import { models, named, pick, plainCall, refused, selectionInput, withRoute } from './selection.ts'

const bounded = (limits: ModelLimits) =>
  named('bounded', {
    facts: facts({ limits, capabilities: CAPABILITIES, features: ['keyterms', 'multichannel'] }),
  })
const free = named('free', { facts: facts({ capabilities: CAPABILITIES }) })

/** A limit, payloads that keep it, one that does not, and the field that the refusal names. */
type Row<K extends OperationName> = readonly [
  limits: ModelLimits,
  within: readonly Partial<Calls[K]>[],
  over: Partial<Calls[K]>,
  param: string,
]

const { payload } = transcriptionCall()
const audio = (overrides: Partial<Calls['transcription']['audio']>) => ({
  audio: { ...payload.audio, ...overrides },
})
const keyterms = (...terms: string[]) => ({ options: { ...payload.options, keyterms: terms } })
const channels = (count: number | null, multichannel = true) => ({
  ...audio({ channels: count }),
  options: { ...payload.options, multichannel },
})

const ROWS: { readonly [K in OperationName]?: readonly Row<K>[] } = {
  transcription: [
    [
      { max_audio_bytes: 1000 },
      [audio({ decodedBytes: 1000 })],
      audio({ decodedBytes: 1001, format: 'mpeg' }),
      'audio',
    ],
    [
      { max_audio_seconds: 1500 },
      [audio({ durationSeconds: 1500 }), audio({ durationSeconds: null })],
      // Of other formats it would be heard in parts.
      audio({ durationSeconds: 1500.01, format: 'mpeg' }),
      'audio',
    ],
    [
      { max_audio_seconds: 600, max_audio_seconds_with: { keyterms: 60, diarization: 1 } },
      [audio({ durationSeconds: 600 }), { ...audio({ durationSeconds: 60 }), ...keyterms('lark') }],
      { ...audio({ durationSeconds: 61, format: 'mpeg' }), ...keyterms('lark') },
      'audio',
    ],
    [{ max_channels: 5 }, [channels(5), channels(6, false), channels(null)], channels(6), 'multichannel'],
    [{ keyterms: { max_items: 2 } }, [keyterms('a', 'b')], keyterms('a', 'b', 'c'), 'keyterms'],
    [
      { keyterms: { max_item_characters: 3 } },
      [keyterms('👋👋👋', 'abc')],
      keyterms('abc', 'abcd'),
      'keyterms',
    ],
    [
      { keyterms: { max_item_words: 2 } },
      [keyterms('one  two', ' one ')],
      keyterms('one two three'),
      'keyterms',
    ],
    [
      { keyterms: { max_words: 3 } },
      [keyterms('one two', 'three')],
      keyterms('one two', 'three four'),
      'keyterms',
    ],
  ],
  translation: [
    [{ audio_formats: ['mp3', 'wav'] }, [audio({ format: 'mp3' })], audio({ format: 'ogg' }), 'audio'],
    [{ keyterms: { forbidden: '<>\n' } }, [keyterms('a-b')], keyterms('a\nb'), 'keyterms'],
  ],
  speech: [
    [
      { speech_formats: ['wav'] },
      [{ response_format: 'wav' }],
      { response_format: 'mp3' },
      'response_format',
    ],
    [{ max_input_characters: 5 }, [{ input: '👋👋👋👋👋' }], { input: '👋👋👋👋👋👋' }, 'input'],
    [{ speed: { min: 0.5, max: 2 } }, [{ speed: 0.5 }, { speed: 2 }], { speed: 2.1 }, 'speed'],
    // 1 asks for nothing, so it is within any range.
    [{ speed: { min: 1.1, max: 2 } }, [{ speed: 1 }, { speed: 1.1 }], { speed: 1.05 }, 'speed'],
    [{ voices: ['alloy'] }, [{ voice: 'alloy' }], { voice: 'Alloy' }, 'voice'],
  ],
  chat: [
    [
      { json_schema: false },
      [{ response_schema: null }, { response_schema: { type: 'object' } }],
      { response_schema: { type: 'object', additionalProperties: false } },
      'response_schema',
    ],
  ],
  embeddings: [
    [{ max_inputs: 2 }, [{ input: ['a', 'b'] }], { input: ['a', 'b', 'c'] }, 'input'],
    [{ max_dimensions: 1024 }, [{ dimensions: 1024 }], { dimensions: 1025 }, 'dimensions'],
    [{ max_dimensions: 0 }, [], { dimensions: 1 }, 'dimensions'],
  ],
  image: [
    [{ max_images: 1 }, [{ n: 1 }], { n: 2 }, 'n'],
    [{ image_sizes: ['1024x1024', 'auto'] }, [{ size: 'auto' }], { size: '512x512' }, 'size'],
    [{ image_formats: ['png'] }, [{ output_format: 'png' }], { output_format: 'webp' }, 'output_format'],
  ],
  video: [
    [{ video_sizes: ['1280x720'] }, [{ size: '1280x720' }], { size: '720x1280' }, 'size'],
    [{ video_seconds: [4, 8] }, [{ duration_seconds: 8 }], { duration_seconds: 6 }, 'duration_seconds'],
  ],
}

t.test('a limit names the field only when no capable entry takes the call', async (t) => {
  for (const operation of OPERATION_NAMES) checkRows(t, operation, ROWS[operation] ?? [])
})

function checkRows<K extends OperationName>(t: Test, operation: K, rows: readonly Row<K>[]): void {
  for (const [limits, within, over, param] of rows) {
    const name = `${operation} ${JSON.stringify(limits)}`
    const [alone, chain] = [withRoute([bounded(limits)]), withRoute([bounded(limits), free])]
    for (const fields of within)
      t.same(models(pick(operation, alone, plainCall(operation, fields))), ['bounded'], name)
    t.same(models(pick(operation, alone, plainCall(operation))), ['bounded'], `${name}: nothing asked for`)
    const call = plainCall(operation, over)
    t.same(models(pick(operation, chain, call)), ['free'], name)
    const error = refused(operation, alone, call)
    t.equal(error.code, 'INVALID_REQUEST', name)
    t.equal(error.extra.param, param, name)
    t.match(error.extra.details, { entries: [{ left: 'limits', param, detail: error.message }] }, name)
  }
}

t.test('without limits nothing is refused', async (t) => {
  for (const operation of OPERATION_NAMES)
    for (const [, , over] of (ROWS[operation] ?? []) as readonly Row<typeof operation>[])
      t.same(models(pick(operation, withRoute([free]), plainCall(operation, over))), ['free'])
})

t.test('a voice goes by the name that the entry has for it', async (t) => {
  const mapping = { ...bounded({ voices: ['alloy'] }), voices: { house: 'alloy' } }
  const who = withRoute([mapping])
  t.same(models(pick('speech', who, speechCall({ voice: 'house' }))), ['bounded'])
  t.equal(voiceAt(mapping, 'house'), 'alloy')
  t.equal(voiceAt(mapping, null), null)
  // Names that every object has are no voices that were mapped.
  t.equal(voiceAt(mapping, 'constructor'), 'constructor')
  t.equal(refused('speech', who, speechCall({ voice: 'constructor' })).extra.param, 'voice')
})

t.test('a voice is one of those listed, or looks like one', async (t) => {
  const takes = (limits: ModelLimits, voice: string) =>
    select(selectionInput('speech', withRoute([bounded(limits)]), speechCall({ voice }))).refusal === null
  const both = { voices: ['alloy'], voice_pattern: '^[a-z]{3}$' }
  t.same(
    ['alloy', 'abc', 'abcd'].map((voice) => takes(both, voice)),
    [true, true, false],
  )
  t.same(
    ['alloy', 'abc'].map((voice) => takes({ voice_pattern: '^[a-z]{3}$' }, voice)),
    [false, true],
  )
  t.ok(takes({}, 'any'))
})

t.test('the first limit in the order of the route is told', async (t) => {
  const who = withRoute([bounded({ max_input_characters: 1 }), bounded({ speech_formats: ['wav'] })])
  const error = refused('speech', who, speechCall({ input: 'hey', response_format: 'mp3' }))
  t.equal(error.extra.param, 'input')
  t.match(error.extra.details, { entries: [{ param: 'input' }, { param: 'response_format' }] })
})
