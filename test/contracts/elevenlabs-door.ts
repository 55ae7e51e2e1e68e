import { viewedAnswer } from '../../src/gateway/api/door-transcription.ts'
import { ELEVENLABS } from '../../src/gateway/api/elevenlabs/door.ts'
import { readScribeOptions, SCRIBE_OPTIONS } from '../../src/gateway/api/elevenlabs/scribe-options.ts'
import {
  readVoiced,
  SPEECH_OPTIONS,
  SPEECH_QUERY,
  speechRequest,
  timedPiece,
} from '../../src/gateway/api/elevenlabs/text-to-speech.ts'
import { scribeResponse } from '../../src/gateway/api/elevenlabs/transcript.ts'
import { speechModels, voicesOf, voicesPageOf } from '../../src/gateway/api/elevenlabs/voices.ts'
import type { Exchange } from '../../src/gateway/edge/exchange.ts'
import { principal } from '../support/catalog.ts'
import type { Contract } from './contract.ts'
import { type DoorCase, type DoorEndpoint, doorCases } from './doors.ts'
import { answersOf, CALLERS } from './heard.ts'

const ROOT = 'https://api.elevenlabs.io'
const { door } = ELEVENLABS
const SPEECH = '/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb'

const exchangeOf = (query: URLSearchParams, voice = '') =>
  ({ query: `${query}`, headers: {}, params: [voice] }) as unknown as Exchange

const SCRIBE: DoorEndpoint = {
  ...{ door, method: 'POST', path: '/v1/speech-to-text', bodyAs: 'form', always: { model_id: 'scribe_v1' } },
  besides: ['file', 'cloud_storage_url', 'source_url'],
  table: SCRIBE_OPTIONS,
  ask({ query, body }) {
    const values = Object.entries(body).map(([name, value]) => {
      const texts = (Array.isArray(value) ? value : [value]).map((one) =>
        typeof one === 'object' ? JSON.stringify(one) : `${one}`,
      )
      return [name, texts] as const
    })
    const fields = { kind: 'form', values: new Map(values) } as const
    const { options, view, warnings } = readScribeOptions(exchangeOf(query), fields, principal())
    return { warnings, answers: answersOf(options, viewedAnswer(ELEVENLABS.door, view, scribeResponse)) }
  },
}

const SPEAK: DoorEndpoint = {
  ...{ door, method: 'POST', path: SPEECH, bodyAs: 'json', always: { text: 'hello' }, besides: [] },
  table: { ...SPEECH_QUERY, ...SPEECH_OPTIONS },
  ask({ query, body }) {
    const exchange = exchangeOf(query, 'JBFqnCBsd6RMkjVDRZzb')
    const read = speechRequest.read(body, exchange)
    const call = readVoiced(exchange, { call: read, fields: body }, principal())
    return { warnings: call.warnings, answers: [] }
  },
}

const HEARD = { characters: ['h', 'i'], starts: [0, 0.1], ends: [0.1, 0.25] }

const TIMED: DoorEndpoint = {
  ...SPEAK,
  ask(request) {
    const times = [undefined, { text: HEARD, normalized: null }, { text: HEARD, normalized: HEARD }]
    return { ...SPEAK.ask(request), answers: times.map((one) => timedPiece('aGk=', one)) }
  },
}

/** Lists have no options here: they are what there is, on one page. */
const LIST = { door, method: 'GET', bodyAs: null, always: {}, table: {} } as const
const PAGED = [
  ...['next_page_token', 'page_size', 'search', 'sort', 'sort_direction', 'voice_type', 'category'],
  ...[
    'fine_tuning_state',
    'collection_id',
    'include_total_count',
    'voice_ids',
    'show_legacy',
    'with_settings',
  ],
]

/** The endpoints of ElevenLabs' format. */
export function elevenlabsDoor(contract: Contract): DoorCase[] {
  const list = (path: string, answers: readonly object[]): DoorEndpoint => {
    return { ...LIST, path, besides: PAGED, ask: () => ({ warnings: [], answers }) }
  }
  const lists = CALLERS.flatMap((caller) => [
    list('/v1/voices', [{ voices: voicesOf(caller) }]),
    list('/v2/voices', [voicesPageOf(caller)]),
    list('/v1/voices/rachel', voicesOf(caller)),
    list('/v1/models', [speechModels(caller)]),
  ])
  const spoken = ['', '/stream'].flatMap((suffix) => [
    { ...SPEAK, path: `${SPEECH}${suffix}` },
    { ...TIMED, path: `${SPEECH}${suffix}/with-timestamps` },
  ])
  return [SCRIBE, ...spoken, ...lists].flatMap((endpoint) => doorCases(contract, ROOT, endpoint))
}
