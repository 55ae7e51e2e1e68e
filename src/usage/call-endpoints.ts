import type { EndedExchange } from '../contracts/recorder.ts'

/** An endpoint that was met. */
export interface Endpoint {
  readonly method: string
  readonly pattern: string
  /** `POST /v1/chat` */
  readonly text: string
  /** A request to it, with a key, has a record: it is a call or a live session. */
  readonly isCall: boolean
}

/** The endpoints that requests came to, each looked up once. The one that came last is there without a look. */
export class CallEndpoints {
  readonly #calls: ReadonlySet<string>
  /** By method and pattern. */
  readonly #met = new Map<string, Map<string, Endpoint>>()
  #last: Endpoint = { method: '', pattern: '', text: ' ', isCall: false }

  /** @param calls endpoints whose requests have records, such as `POST /v1/chat` */
  constructor(calls: ReadonlySet<string>) {
    this.#calls = calls
  }

  of(exchange: EndedExchange): Endpoint {
    const { method } = exchange
    const pattern = exchange.pattern ?? ''
    const last = this.#last
    if (last.pattern === pattern && last.method === method) return last
    const known = this.#met.get(method) ?? new Map<string, Endpoint>()
    this.#met.set(method, known)
    const text = `${method} ${pattern}`
    const endpoint = known.get(pattern) ?? { method, pattern, text, isCall: this.#calls.has(text) }
    known.set(pattern, endpoint)
    this.#last = endpoint
    return endpoint
  }
}
