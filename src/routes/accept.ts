const REFUSED = /;\s*q=0(\.0*)?\s*(;|$)/i

/**
 * Whether a header of the `Accept` family takes something: a weight of 0 says the contrary.
 *
 * @param header   undefined: it was not sent, and names nothing
 * @param matching tells whether one of its items names it
 */
export function accepts(header: string | undefined, matching: RegExp): boolean {
  return (header ?? '').split(',').some((item) => matching.test(item) && !REFUSED.test(item))
}
