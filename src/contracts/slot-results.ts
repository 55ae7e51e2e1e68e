import type { StoredResult } from './ledger.ts'

/** An answer whose body is here as text. */
export interface WholeResult {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** Keeps answers for replay: small ones inline, large ones as objects `slot/<workspace>/<id>/<attempt>`. */
export interface SlotResults {
  /** @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails or does not take it within 5 s */
  keep(workspace: string, result: WholeResult): Promise<StoredResult>
  /** Null: the object is gone. @throws GatewayError DEPENDENCY_UNAVAILABLE */
  open(result: StoredResult): Promise<WholeResult | null>
  /** Deletes the object of a result that no slot took. Never rejects. */
  drop(result: StoredResult): Promise<void>
}
