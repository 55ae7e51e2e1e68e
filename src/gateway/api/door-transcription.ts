import type { Principal } from '../../contracts/catalog.ts'
import type { RequireFields } from '../../contracts/requirements.ts'
import type { WholeResult } from '../../contracts/slot-results.ts'
import type { BodyLayout } from '../edge/body.ts'
import type { Exchange } from '../edge/exchange.ts'
import type { Fields } from '../edge/form.ts'
import { type DemandingFlag, doorSelectors, type FieldValue, formOf } from './door-options.ts'
import type { Door } from './endpoint.ts'
import { factHeaders } from './fact-headers.ts'
import { type Heard, heardIn } from './heard.ts'
import { jsonText } from './json-reply.ts'
import type {
  ShapedRequest,
  TranscriptionAnswer,
  TranscriptionRun,
  TranscriptionShape,
} from './native/transcription.ts'
import { readTranscriptionRequest, type TranscriptionRequest } from './native/transcription-request.ts'

/** The options of a vendor's, as the gateway has them. */
interface DoorFields {
  /** Fields of the gateway's own request. */
  readonly fields: Readonly<Record<string, FieldValue>>
  /** May name a purpose. */
  readonly model: string | null
  /** Demanded of every entry; absent: nothing. */
  readonly demands?: RequireFields | null
  readonly warnings: readonly string[]
  /** The request may ask for a durable job. Absent: it may not. */
  readonly jobs?: boolean
}

/** @throws GatewayError as `readTranscriptionRequest` */
export function readDoorTranscription(
  exchange: Exchange,
  principal: Principal,
  { fields, model, demands = null, warnings, jobs = false }: DoorFields,
): TranscriptionRequest {
  const request = readTranscriptionRequest(exchange, formOf(fields), 'transcription', { stream: false, jobs })
  return {
    ...request,
    selectors: doorSelectors(request.selectors, principal, model, demands),
    warnings: [...request.warnings, ...warnings],
  }
}

/**
 * The answer in a vendor's format to a view of the transcript that the options of the call do not tell.
 *
 * @param view plain data
 * @param response writes it; its members may be `Large`
 */
export function viewedAnswer<View>(
  { name }: Door,
  view: View,
  response: (heard: Heard, view: View) => object,
): TranscriptionAnswer {
  return {
    name: `${name} ${JSON.stringify(view)}`,
    whole(outcome, clock) {
      const headers = { 'content-type': 'application/json', ...factHeaders(outcome.envelope) }
      const resultOf = (text: string): WholeResult => ({ status: 200, headers, text })
      const text = jsonText(response(heardIn(outcome, clock.wallNow()), view))
      return typeof text === 'string' ? resultOf(text) : text.then(resultOf)
    },
  }
}

interface ViewedTranscription<View> {
  readonly door: Door
  /** The view of a request that asks for nothing. */
  readonly plain: View
  /** As `viewedAnswer` has it. */
  response(heard: Heard, view: View): object
  /** @throws GatewayError as `readDoorTranscription` */
  read(exchange: Exchange, fields: Fields, principal: Principal): ShapedRequest & { readonly view: View }
  readonly submitted: NonNullable<TranscriptionShape['submitted']>
  readonly flag: DemandingFlag
  readonly layout: BodyLayout
}

/** Transcription of files at a door whose answers have views. */
export function viewedTranscription<View>(definition: ViewedTranscription<View>): TranscriptionRun {
  const { door, plain, response, read, submitted, flag, layout } = definition
  return {
    task: 'transcription',
    offers: { stream: false, jobs: false },
    shape: {
      ...viewedAnswer(door, plain, response),
      read(exchange, fields, _definition, principal) {
        const { view, ...request } = read(exchange, fields, principal)
        return { ...request, answer: viewedAnswer(door, view, response) }
      },
      submitted,
    },
    demandedBy: (exchange) => flag.demandedBy(exchange),
    layout,
  }
}
