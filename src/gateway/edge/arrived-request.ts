import type { GatewayError } from '../../contracts/errors.ts'
import { type RequestHead, requestIdOf } from './request-head.ts'

/** Facts about a request that are known before its exchange is made. */
export interface RequestFacts {
  readonly contentLength: number | null
  readonly params: readonly string[]
  /** As in `Exchange`. */
  readonly pattern: string | null
  /** The connection is to be closed after the answer: its next bytes are not to be trusted as a request. */
  readonly closes: boolean
  /** As in `Exchange`. */
  readonly encrypted: boolean
  /** As in `Exchange`. */
  readonly headFault: GatewayError | null
}

/** A request as its head describes it; the fields are those of `Exchange`. */
export class ArrivedRequest {
  readonly requestId: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly contentLength: number | null
  readonly params: readonly string[]
  readonly pattern: string | null
  readonly encrypted: boolean
  readonly headFault: GatewayError | null

  constructor(head: RequestHead, facts: RequestFacts) {
    this.requestId = requestIdOf(head)
    this.method = head.method
    this.path = head.path
    this.query = head.query
    this.headers = head.headers
    this.contentLength = facts.contentLength
    this.params = facts.params
    this.pattern = facts.pattern
    this.encrypted = facts.encrypted
    this.headFault = facts.headFault
  }
}
