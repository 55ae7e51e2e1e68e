import type { Entry, Principal, Selectors } from '../../../src/contracts/catalog.ts'
import type { ChatCall, ChatPart } from '../../../src/contracts/chat.ts'
import type { GatewayError } from '../../../src/contracts/errors.ts'
import type { Calls, OperationName } from '../../../src/contracts/operations.ts'
import type { Call } from '../../../src/gateway/call/facts/call.ts'
import { createCircuitBreakers } from '../../../src/gateway/call/select/health.ts'
import { type Selection, type SelectionInput, select } from '../../../src/gateway/call/select/selection.ts'
import { speechCall, transcriptionCall } from '../../support/call.ts'
import { configuredProvider, entry, PROTOCOLS, principal, route } from '../../support/catalog.ts'
import { refusalOf } from '../../support/refusal.ts'

/** An entry by its model, at a provider with every operation. */
export function named(model: string, overrides: Partial<Entry> = {}): Entry {
  return entry({ model, provider: configuredProvider({ kind: 'able' }), ...overrides })
}

/** Whoever has one route with these entries. */
export function withRoute(entries: readonly Entry[], overrides: Partial<Principal> = {}): Principal {
  return principal({ route: route(entries), ...overrides })
}

/** All that selection is asked with; every entry is healthy and the time is 0 unless overridden. */
export function selectionInput<K extends OperationName>(
  operation: K,
  who: Principal,
  call: Call<K>,
  overrides: Partial<SelectionInput> = {},
): SelectionInput {
  return {
    principal: who,
    call: { ...call, operation } as Call,
    providers: PROTOCOLS,
    random: () => 0.5,
    latency: { medianMs: () => 0 },
    health: createCircuitBreakers(),
    nowMs: 0,
    ...overrides,
  }
}

/** @throws GatewayError when the call is refused */
export function pick<K extends OperationName>(
  operation: K,
  who: Principal,
  call: Call<K>,
  overrides: Partial<SelectionInput> = {},
): Selection {
  const { selection, refusal } = select(selectionInput(operation, who, call, overrides))
  if (selection === null) throw refusal
  return selection
}

/** The error that the call is refused with. */
export function refused<K extends OperationName>(
  operation: K,
  who: Principal,
  call: Call<K>,
  overrides: Partial<SelectionInput> = {},
): GatewayError {
  return refusalOf(() => pick(operation, who, call, overrides))
}

export function models({ candidates }: Selection): string[] {
  return candidates.map(({ entry: { model } }) => model)
}

/** A call of any operation, with a payload that asks for nothing special. */
export function plainCall<K extends OperationName>(
  operation: K,
  overrides: Partial<Calls[K]> = {},
  selectors: Partial<Selectors> = {},
): Call<K> {
  const plain = PLAIN[operation] as Calls[K]
  return {
    operation,
    payload: { ...plain, ...overrides },
    selectors: { purpose: null, responseProfile: null, ...selectors },
    warnings: [],
  }
}

const SAMPLING = { max_tokens: null, temperature: null, top_p: null, stop: [], seed: null }

/** A chat whose one message has these parts. */
export function chatOf(parts: readonly ChatPart[]): ChatCall {
  return {
    ...SAMPLING,
    messages: [{ role: 'user', parts }],
    tools: [],
    tool_choice: null,
    modalities: ['text'],
    audio: null,
    response_schema: null,
  }
}

export const PICTURE: ChatPart = {
  type: 'image',
  source: { kind: 'url', url: 'https://example.com/cat.png' },
  detail: null,
}

const TEXT_CHAT = chatOf([{ type: 'text', text: 'hello' }])

const PLAIN: Calls = {
  transcription: transcriptionCall().payload,
  translation: transcriptionCall().payload,
  speech: speechCall().payload,
  chat: TEXT_CHAT,
  complete: { ...SAMPLING, prompt: 'hello' },
  embeddings: { input: ['hello'], dimensions: null },
  image: { prompt: 'a lark', n: 1, size: null, quality: null, output_format: null, seed: null },
  vision: chatOf([PICTURE]),
  video: { prompt: 'a lark', duration_seconds: null, size: null, seed: null },
}
