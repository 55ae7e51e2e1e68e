import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'

/**
 * What the provider does with a chat: it answers; it fails, breaks the connection, or says nothing, the first time, and
 * answers the next; it never answers.
 */
export type Manner = 'answers' | 'fails' | 'breaks' | 'stalls' | 'hangs'

/** A chat like no other: its answer has `tokens` tokens, by which its price is known from all others'. */
export interface PricedChat {
  readonly manner: Manner
  readonly tokens: number
}

/** What the entry of a fleet has to say for these prices. */
export const PRICED = {
  capabilities: ['text', 'audio_input'],
  price: { per_hour_usd: 36, per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 },
}

const INPUT_TOKENS = 10
const LATEST_MS = 1_500
const CHAT = /<(answers|fails|breaks|stalls|hangs) (\d+)>/

export function messageOf({ manner, tokens }: PricedChat): string {
  return `<${manner} ${tokens}>`
}

/** What a chat costs whose answer was had, micro-USD. */
export function costOf({ tokens }: PricedChat): number {
  return INPUT_TOKENS + 10 * tokens
}

/** What is set aside for it before: four characters are taken for a token, and all that it may answer. */
export function estimateOf(chat: PricedChat, maxTokens: number): number {
  return Math.ceil(messageOf(chat).length / 4) + 10 * maxTokens
}

/** What a wav costs, at 10,000 micro-USD a second, of 16 kHz. */
export function costOfWav(wav: Buffer): number {
  return Math.round(((wav.length - 44) / 32_000) * 10_000)
}

export interface PricedUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  /** How often a chat was here whole. */
  asked(chat: PricedChat): number
}

/** A provider in OpenAI's format that takes up to a second and a half for whatever it is asked. */
export async function startPricedUpstream(t: Pick<Test, 'teardown'>): Promise<PricedUpstream> {
  const asked = new Map<string, number>()

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const [mark, manner, tokens] = CHAT.exec(Buffer.concat(chunks).toString('latin1')) ?? []
    const times = (asked.get(mark ?? '') ?? 0) + 1
    if (mark !== undefined) asked.set(mark, times)
    if (manner === 'hangs' || (manner === 'stalls' && times === 1)) return
    await sleep(Math.random() * LATEST_MS)
    if (manner === 'breaks' && times === 1) return void request.socket.destroy()
    if (manner === 'fails' && times === 1) return json(response, 500, { error: { message: 'it broke' } })
    if (mark === undefined)
      return json(response, 200, { text: 'a lark', usage: { type: 'duration', seconds: 99 } })
    const message = { role: 'assistant', content: 'a lark' }
    const output = Number(tokens)
    json(response, 200, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage: {
        prompt_tokens: INPUT_TOKENS,
        completion_tokens: output,
        total_tokens: INPUT_TOKENS + output,
      },
    })
  }
  const origin = await serveHttp(t, (request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  return { url: `${origin}/v1`, asked: (chat) => asked.get(messageOf(chat)) ?? 0 }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
