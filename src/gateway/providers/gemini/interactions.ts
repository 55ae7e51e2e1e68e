import type { JsonObject } from '../../../contracts/json.ts'
import type { Target } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply } from '../../../contracts/upstream.ts'
import { type TokenUsage, tokenDetails } from '../../../contracts/usage.ts'
import { errorInside } from '../answer.ts'
import { unusable } from '../failure.ts'
import { asObject, objectsIn } from '../json.ts'
import { audioIn, isContentReason, readCount, refusedContent } from './answer.ts'

/** An interaction as far as it is looked at. */
export interface Interaction {
  readonly status: string
  /** Output of the model. */
  readonly contents: readonly JsonObject[]
  /** The first thing that went wrong; null when nothing is told of. */
  readonly error: JsonObject | null
  readonly usage: TokenUsage | null
}

/** Ends without a result, and why. Any other status but `completed` is on its way to one of them. */
const DEAD_ENDS: ReadonlyMap<string, string> = new Map([
  ['failed', 'the provider failed'],
  ['cancelled', 'the provider cancelled the work'],
  ['incomplete', 'the provider stopped before the work was whole'],
  ['budget_exceeded', 'the provider stopped at the limit of its budget'],
  ['requires_action', 'the provider waits for what nobody can give it'],
  ['requires_continuation', 'the provider stopped before the work was whole'],
])

/** `POST /interactions` without an id. */
export function interactionUrl({ baseUrl }: Target, id?: string): string {
  return `${baseUrl}/interactions${id === undefined ? '' : `/${encodeURIComponent(id)}`}`
}

/** https://ai.google.dev/api/interactions-api; null when there is no status. */
export function readInteraction(body: JsonObject): Interaction | null {
  const { status, steps, error, errors, usage } = body
  if (typeof status !== 'string' || status === '') return null
  return {
    status,
    contents: objectsIn(steps)
      .filter(({ type }) => type === 'model_output')
      .flatMap(({ content }) => objectsIn(content)),
    error: asObject(error) ?? objectsIn(errors)[0] ?? null,
    usage: readUsage(asObject(usage)),
  }
}

function readUsage(usage: JsonObject | null): TokenUsage | null {
  if (usage === null) return null
  return {
    input_tokens: readCount(usage.total_input_tokens) + readCount(usage.total_tool_use_tokens),
    output_tokens: readCount(usage.total_output_tokens) + readCount(usage.total_thought_tokens),
    ...tokenDetails({
      cached_input_tokens: usage.total_cached_tokens,
      cache_write_tokens: undefined,
      audio_input_tokens: audioIn(usage.input_tokens_by_modality, 'tokens'),
      audio_output_tokens: audioIn(usage.output_tokens_by_modality, 'tokens'),
      service_tier: undefined,
    }),
  }
}

/** The failure that an interaction ended with; null while it works, and when it is completed. */
export function deadEndOf({ status, error }: Interaction, reply: UpstreamReply): Failure | null {
  const reason = DEAD_ENDS.get(status)
  if (reason === undefined) return null
  const word = [error?.code, error?.status].find((code) => typeof code === 'string')?.toUpperCase() ?? null
  if (isContentReason(word)) return refusedContent(reply.status, 'the provider refused the content', word)
  if (status === 'budget_exceeded') return { ...unusable(reply, reason), kind: 'credential' }
  return (error === null ? null : errorInside({ error }, reply)) ?? unusable(reply, reason)
}
