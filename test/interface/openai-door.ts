import OpenAI from 'openai'
import type { Larkway } from '../support/larkway.ts'

/** OpenAI's own client, and what it sends. */
export interface DoorClient {
  readonly openai: OpenAI
  /** When each request was sent, ms on the clock of `performance.now()`. */
  readonly sentMs: readonly number[]
  /** The headers of the last answer. */
  readonly headers: () => Headers
}

export interface DoorClientOptions {
  readonly key?: string
  readonly maxRetries?: number
}

/** The official client, changed in nothing but its base URL and key; its requests are noted as they leave. */
export function doorClient(
  { url, key: own }: Pick<Larkway, 'url' | 'key'>,
  { key = own, maxRetries = 0 }: DoorClientOptions = {},
): DoorClient {
  const sentMs: number[] = []
  let headers = new Headers()
  const openai = new OpenAI({
    baseURL: `${url}/openai/v1`,
    apiKey: key,
    maxRetries,
    async fetch(input, init) {
      const response = fetch(input, init)
      // With a URL that leads nowhere the client finds out whether there are forms.
      if (!String(input).startsWith(url)) return response
      sentMs.push(performance.now())
      headers = (await response).headers
      return response
    },
  })
  return { openai, sentMs, headers: () => headers }
}

/** A file as the client uploads it. */
export function wavFile(bytes: Uint8Array, name = 'a.wav'): File {
  return new File([new Uint8Array(bytes)], name, { type: 'audio/wav' })
}

/** What a rejected call was rejected with. */
export async function rejected(call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const thrown = await call.then(
    () => null,
    (error: unknown) => error,
  )
  if (thrown instanceof OpenAI.APIError) return thrown
  throw new Error(`the client did not throw an APIError but ${String(thrown)}`)
}
