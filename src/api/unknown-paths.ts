import { errorReply, type GatewayError } from '../errors.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import { ASSEMBLYAI } from './assemblyai/door.ts'
import { DEEPGRAM } from './deepgram/door.ts'
import { ELEVENLABS } from './elevenlabs/door.ts'
import type { Door } from './endpoint.ts'
import { OPENAI } from './openai/door.ts'
import { shapedError } from './openapi/operation.ts'

const DOORS: readonly (readonly [prefix: string, door: Door])[] = [
  ['/openai/', OPENAI.door],
  ['/deepgram/', DEEPGRAM.door],
  ['/elevenlabs/', ELEVENLABS.door],
  ['/assemblyai/', ASSEMBLYAI.door],
]

/** Writes a refusal of an unknown path, or method, of a door as its clients read it; null: it is of no door. */
export function doorRefusal(exchange: Exchange, refusal: GatewayError): Reply | null {
  const { path, requestId } = exchange
  const found = DOORS.find(([prefix]) => path.startsWith(prefix))
  if (found === undefined) return null
  const [, { errorShape, requestIdHeader, errorHeader }] = found
  const { status, headers, body } = errorReply(refusal, requestId)
  return {
    status,
    headers: {
      ...headers,
      [requestIdHeader]: requestId,
      ...(errorHeader === undefined
        ? {}
        : { [errorHeader]: refusal.message.replaceAll(/[^\x20-\x7e]/g, '?') }),
    },
    body: JSON.stringify(shapedError(errorShape, refusal, requestId, body)),
  }
}
