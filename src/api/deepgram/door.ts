import type { Exchange } from '../../inbound/exchange.ts'
import { renamed } from '../door-options.ts'
import type { Door } from '../endpoint.ts'
import { DeepgramFault } from '../openapi/deepgram-answers.ts'
import type { Answer, Content } from '../openapi/operation.ts'

/** Conventions of Deepgram's client libraries, which are given `/deepgram` as their base URL. */
const SOCKET_DOOR: Door = {
  tag: 'Deepgram',
  requestIdHeader: 'dg-request-id',
  errorHeader: 'dg-error',
  authorization: bearerOf,
  translateError: (error) => renamed(error, NAMES),
}

const DOOR: Door = {
  ...SOCKET_DOOR,
  errorShape: {
    schema: DeepgramFault,
    members: ({ code, message }, requestId) => ({ err_code: code, err_msg: message, request_id: requestId }),
  },
}

/** Part of every endpoint of this door. */
export const DEEPGRAM = { tag: 'Deepgram', scope: 'inference', door: DOOR } as const

/** The same of a WebSocket, whose clients read the reason of a refusal in a header. */
export const DEEPGRAM_SOCKET = { ...DEEPGRAM, door: SOCKET_DOOR } as const

/** `Token` is the scheme of its clients; keys of theirs that expire go as `Bearer`. */
export function bearerOf({ authorization }: Exchange['headers']): string | undefined {
  return authorization?.replace(/^Token +/i, 'Bearer ')
}

/** Documents an answer in Deepgram's shape. */
export function deepgramAnswer(contents: readonly Content[], headers: Answer['headers'] = []): Answer {
  return { status: 200, description: "Deepgram's answer", contents, headers }
}

/** Names of ours, and what these clients call the same. */
const NAMES: Readonly<Record<string, string>> = {
  input: 'text',
  voice: 'model',
  response_format: 'encoding',
  keyterms: 'keyterm',
}
