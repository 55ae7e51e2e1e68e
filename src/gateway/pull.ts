import type { Audio } from '../contracts/audio.ts'
import type { Calls, OperationName } from '../contracts/operations.ts'
import type { Operation, Target } from '../contracts/provider.ts'
import type { FailureKind } from '../contracts/upstream.ts'
import { type AttemptFailure, type AttemptOptions, runOperation } from './operation.ts'
import type { Services } from './services.ts'

/** Failures that may be about the URL and not about the audio: the provider could not open it, or takes none. */
const MAYBE_OF_URL: ReadonlySet<FailureKind> = new Set(['caller', 'limit'])

/**
 * Makes an attempt at a provider that fetches the audio itself. Only audio that is a whole object can be fetched: a
 * form or JSON around it would be fetched too.
 *
 * The URL is a secret until it ends, which is with the attempt: a provider's message may repeat it, so none is kept.
 *
 * @returns null when the bytes have to be sent: nothing can be fetched, or the provider refused what it was to fetch
 * @throws as `runOperation`
 */
export async function runPulled<K extends OperationName, Result>(
  { audioLinks }: Pick<Services, 'audioLinks'>,
  operation: Omit<Operation<Calls[K], Result>, 'streamed'>,
  payload: Calls[K],
  target: Target,
  options: AttemptOptions,
): Promise<{ readonly result: Result } | AttemptFailure | null> {
  const key = 'audio' in payload ? wholeObject(payload.audio as Audio) : null
  // What an earlier claim of a job has begun is followed as it is.
  const isResumed = options.checkpoint?.resumed != null
  if (audioLinks === undefined || operation.takesAudioUrl !== true || key === null || isResumed) return null
  const nowSeconds = Math.floor(Date.now() / 1000)
  const leftSeconds = Math.floor((options.deadlineAtMs - performance.now()) / 1000)
  const object = { key, bytes: 0, mediaType: 'application/octet-stream' }
  const audioUrl = await audioLinks.sign(object, nowSeconds + Math.max(1, leftSeconds))
  const ended = await runOperation(operation, payload, { ...target, audioUrl }, options)
  if ('result' in ended) return ended
  const failure = { ...ended.failure, providerMessage: null }
  if (MAYBE_OF_URL.has(failure.kind) && !ended.unknown) {
    options.memory.release()
    return null
  }
  return { ...ended, failure }
}

/** Key of the object that is this audio, from its first byte to its last; null: there is none. */
function wholeObject({ source, offset, encoding }: Audio): string | null {
  return source.kind === 'object' && offset === 0 && encoding === 'identity' ? source.key : null
}
