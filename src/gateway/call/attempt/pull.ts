import type { Audio } from '../../../contracts/audio.ts'
import type { LinkedObject } from '../../../contracts/links.ts'
import type { Calls, OperationName } from '../../../contracts/operations.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import type { FailureKind } from '../../../contracts/upstream.ts'
import type { Services } from '../context/services.ts'
import { type AttemptFailure, type AttemptOptions, runOperation } from './operation.ts'

/** Failures that may be about the URL and not about the audio: the provider could not open it, or takes none. */
const MAYBE_OF_URL: ReadonlySet<FailureKind> = new Set(['caller', 'limit'])

type PulledOperation<K extends OperationName, Result> = Omit<Operation<Calls[K], Result>, 'streamed'>

/**
 * Makes an attempt at a provider that fetches the audio itself. Where there is nothing to fetch, or it refuses what it
 * was to fetch, it is sent the bytes as any other is.
 *
 * The URL is a secret until it ends, which is with the attempt: a provider's message may repeat it, so none is kept.
 *
 * @throws as `runOperation`
 */
export async function runPulled<K extends OperationName, Result>(
  { audioLinks }: Pick<Services, 'audioLinks'>,
  operation: PulledOperation<K, Result>,
  payload: Calls[K],
  target: Target,
  options: AttemptOptions,
): Promise<{ readonly result: Result } | AttemptFailure> {
  const object =
    'audio' in payload && operation.takesAudioUrl === true ? wholeObject(payload.audio as Audio) : null
  // Work that an earlier claim of a job has begun is followed as it is.
  const isResumed = options.checkpoint !== null && options.checkpoint.resumed !== null
  if (audioLinks !== undefined && object !== null && !isResumed) {
    const nowSeconds = Math.floor(options.clock.wallNow() / 1000)
    const leftSeconds = Math.max(1, Math.floor((options.deadlineAtMs - options.clock.now()) / 1000))
    const audioUrl = await audioLinks.sign(object, nowSeconds + leftSeconds)
    const ended = await runOperation(operation, payload, { ...target, audioUrl }, options)
    if ('result' in ended) return ended
    const isOfUrl = MAYBE_OF_URL.has(ended.failure.kind) && !ended.unknown
    if (!isOfUrl) return { ...ended, failure: { ...ended.failure, providerMessage: null } }
    options.memory.release()
  }
  return runOperation(operation, payload, target, options)
}

/**
 * The object that is this audio from its first byte to its last: of one in a form or in JSON the provider would
 * fetch those too. Null: there is none.
 */
function wholeObject({ source, offset, length, encoding }: Audio): LinkedObject | null {
  if (source.kind !== 'object' || source.sealed === true) return null
  if (offset !== 0 || encoding !== 'identity') return null
  return { key: source.key, bytes: length, mediaType: 'application/octet-stream' }
}
