import type { Profile } from '../../../../contracts/catalog.ts'
import { apiErrorOf, unreachable } from '../../api.ts'
import { bodyFacts, type CallFacts } from './reply.ts'

/** One request of the chat, as a form has it. Empty texts and null are not sent. */
export interface ChatOptions {
  readonly system: string
  readonly user: string
  /** As typed. */
  readonly temperature: string
  /** As typed. */
  readonly maxTokens: string
}

export interface ChatSide {
  readonly app: string
  readonly purpose: string
  readonly profile: Profile | null
}

export const CHAT_PATH = '/v1/chat'

type Message = { readonly role: 'system' | 'user'; readonly content: string }

export interface ChatBody {
  readonly messages: readonly Message[]
  readonly temperature?: number | string
  readonly max_tokens?: number | string
  readonly purpose?: string
  readonly response_profile?: string
  readonly stream: true
}

/** The body of a streamed chat. A number that is none is left to the API to refuse. */
export function chatBody(options: ChatOptions, { purpose, profile }: Omit<ChatSide, 'app'>): ChatBody {
  const { system, user, temperature, maxTokens } = options
  return {
    messages: [
      ...(system.trim() === '' ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: user },
    ],
    ...(temperature.trim() === '' ? {} : { temperature: numberIn(temperature) }),
    ...(maxTokens.trim() === '' ? {} : { max_tokens: numberIn(maxTokens) }),
    ...(purpose === '' ? {} : { purpose }),
    ...(profile === null ? {} : { response_profile: profile }),
    stream: true,
  }
}

function numberIn(typed: string): number | string {
  const number = Number(typed.trim())
  return Number.isFinite(number) ? number : typed.trim()
}

/** State of a chat; `facts` come with its end. */
export interface ChatReply {
  readonly text: string
  readonly facts: CallFacts | null
  readonly finish: string | null
}

/**
 * Reads the events of `/v1/chat` to their end.
 *
 * @param onText called with all of the text so far, whenever there is more
 * @throws ApiError when the stream ends with an error, or without an end
 */
export async function readChat(
  chunks: AsyncIterable<Uint8Array>,
  onText: (text: string) => void,
): Promise<ChatReply> {
  let text = ''
  for await (const data of dataOf(chunks)) {
    if (data === '[DONE]') continue
    const event = JSON.parse(data) as Readonly<Record<string, unknown>>
    if (event.type === 'delta' && typeof event.content === 'string') {
      text += event.content
      onText(text)
    }
    if (event.type === 'error') throw apiErrorOf(200, data, null)
    if (event.type === 'done') {
      const finish = typeof event.finish_reason === 'string' ? event.finish_reason : null
      return { text, facts: bodyFacts(event), finish }
    }
  }
  throw apiErrorOf(200, JSON.stringify(CUT_OFF), null)
}

const CUT_OFF = { error: { code: 'UNREACHABLE', message: 'the answer broke off' } }

/** The data of server-sent events; an event may come in pieces, and several in one. */
async function* dataOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
    rest = events.pop() ?? ''
    for (const event of events) {
      const lines = event.split('\n').filter((line) => line.startsWith('data:'))
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join('\n')
    }
  }
}

/** The pieces of a body as they come. @throws ApiError when the connection is lost */
export async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  if (reader === undefined) return
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((thrown: unknown) => {
        // So a browser says it; what was aborted is no TypeError.
        throw thrown instanceof TypeError ? unreachable() : thrown
      })
      if (done) return
      yield value
    }
  } finally {
    void reader.cancel().catch(() => {})
  }
}
