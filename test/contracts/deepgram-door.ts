import { DEEPGRAM } from '../../src/gateway/api/deepgram/door.ts'
import { LISTEN_OPTIONS, readFileOptions } from '../../src/gateway/api/deepgram/file-options.ts'
import { speechModels } from '../../src/gateway/api/deepgram/models.ts'
import { readSpeak, SPEAK_OPTIONS, speakRequest } from '../../src/gateway/api/deepgram/speak.ts'
import { listenResponse } from '../../src/gateway/api/deepgram/transcript.ts'
import { viewedAnswer } from '../../src/gateway/api/door-transcription.ts'
import type { Exchange } from '../../src/gateway/edge/exchange.ts'
import { principal } from '../support/catalog.ts'
import type { Contract } from './contract.ts'
import { type DoorCase, type DoorEndpoint, doorCases } from './doors.ts'
import { answersOf, CALLERS } from './heard.ts'

const ROOT = 'https://api.deepgram.com'
const { door } = DEEPGRAM

const exchangeOf = (query: URLSearchParams) => ({ query: `${query}`, headers: {} }) as unknown as Exchange

const LISTEN: DoorEndpoint = {
  ...{ door, method: 'POST', path: '/v1/listen', bodyAs: 'audio', always: {}, besides: [] },
  table: LISTEN_OPTIONS,
  ask({ query }) {
    const fields = { kind: 'form', values: new Map() } as const
    const { options, view, warnings } = readFileOptions(exchangeOf(query), fields, principal())
    return { warnings, answers: answersOf(options, viewedAnswer(DEEPGRAM.door, view, listenResponse)) }
  },
}

const SPEAK: DoorEndpoint = {
  ...{ door, method: 'POST', path: '/v1/speak', bodyAs: 'json', always: { text: 'hello' }, besides: [] },
  table: SPEAK_OPTIONS,
  ask({ query, body }) {
    const exchange = exchangeOf(query)
    const call = readSpeak(exchange, speakRequest.read(body, exchange), principal())
    return { warnings: call.warnings, answers: [] }
  },
}

/** Lists have no options here but one that chooses what is listed, which is all there is. */
const LIST = {
  door,
  method: 'GET',
  bodyAs: null,
  always: {},
  table: {},
  besides: ['include_outdated'],
} as const

/** The endpoints of Deepgram's format. */
export function deepgramDoor(contract: Contract): DoorCase[] {
  const lists: DoorEndpoint[] = CALLERS.flatMap((caller) => {
    const all = speechModels(caller)
    const each = [...all.stt, ...all.tts]
    return [
      { ...LIST, path: '/v1/models', ask: () => ({ warnings: [], answers: [all] }) },
      { ...LIST, path: '/v1/models/nova-3', ask: () => ({ warnings: [], answers: each }) },
    ]
  })
  return [LISTEN, SPEAK, ...lists].flatMap((endpoint) => doorCases(contract, ROOT, endpoint))
}
