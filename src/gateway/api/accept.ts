const REFUSED = /;\s*q=0(\.0*)?\s*(;|$)/i

/**
 * True where a header of the `Accept` family takes something: a weight of 0 refuses it.
 *
 * @param header   undefined: it was not sent, and names nothing
 * @param matching tells whether one of its items names it
 */
export function accepts(header: string | undefined, matching: RegExp): boolean {
  return (header ?? '').split(',').some((item) => matching.test(item) && !REFUSED.test(item))
}

export interface AcceptedAudio {
  /** Types that it names, in lower case, the most wanted first. */
  readonly types: readonly string[]
  /** Any other type does as well. */
  readonly others: boolean
}

/** Null when the header asks for no audio: a range for everything does not. */
export function acceptedAudio(header: string | undefined): AcceptedAudio | null {
  if (header === undefined) return null
  const ranges = header.split(',').map(readRange)
  const taken = ranges.filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight)
  const audio = taken.map(({ type }) => type).filter((type) => type.startsWith('audio/'))
  if (audio.length === 0) return null
  const types = audio.filter((type) => type !== 'audio/*')
  return { types, others: types.length < audio.length || taken.some(({ type }) => type === '*/*') }
}

function readRange(item: string): { readonly type: string; readonly weight: number } {
  const [type = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
  const given = parameters.find((parameter) => parameter.startsWith('q='))
  const weight = given === undefined ? 1 : Number(given.slice(2))
  return { type, weight: Number.isFinite(weight) ? weight : 1 }
}
