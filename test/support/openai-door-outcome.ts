import type { Calls, OperationName, Results } from '../../src/contracts/operations.ts'
import { jsonPieces, type Large } from '../../src/gateway/api/json-reply.ts'
import type { Envelope, Outcome } from '../../src/gateway/call/attempt/outcome.ts'
import type { ReplyPiece } from '../../src/gateway/edge/exchange.ts'

export const ENVELOPE: Envelope = {
  id: 'req_1',
  provider: 'first',
  model: 'morse-1',
  policy_version_id: 'pv_1',
  content: '',
  content_blocks: [],
  usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
  cost_usd: 0.5,
  determinism: { seed_honored: false },
  lk_requested_purpose: null,
  lk_applied_purpose: null,
  lk_purpose_source: 'none',
  warnings: [],
}

/** What a call that ended well leaves to be written. */
export function outcome<K extends OperationName>(
  payload: Calls[K],
  result: Results[K],
  usage: Envelope['usage'] = ENVELOPE.usage,
): Outcome<K> {
  return { envelope: { ...ENVELOPE, usage }, payload, result, release() {} }
}

/** What a client finds of an answer's type: large members have become their text. */
export type OnWire<T> =
  T extends Large<ReplyPiece>
    ? never
    : T extends readonly (infer Item)[]
      ? OnWire<Item>[]
      : T extends object
        ? { -readonly [Name in keyof T]: OnWire<T[Name]> }
        : T

/** An answer as it comes out of the JSON that is sent. */
export async function onWire<T extends object>(value: T): Promise<OnWire<T>> {
  return JSON.parse((await jsonPieces<string>(value)).join('')) as OnWire<T>
}
