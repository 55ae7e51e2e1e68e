import type { Step } from '../../src/contracts/provider.ts'
import type { UpstreamRequest } from '../../src/contracts/upstream.ts'

/** The request that a step wants sent; throws when it wants none. */
export function requestOf(step: Step<unknown>): UpstreamRequest {
  if (step.kind === 'send') return step.request
  throw new Error(step.kind === 'failed' ? step.failure.reason : `the step is ${step.kind}`)
}

/** A request's body as it goes over the wire, `audio` in the place of the call's. */
export function bytesOf({ body }: UpstreamRequest, audio: Uint8Array = new Uint8Array(0)): Buffer {
  return Buffer.concat(body.map((piece) => (piece instanceof Uint8Array ? piece : audio)))
}

/** The text fields of a multipart request in their order, read by a parser that shares nothing with ours. */
export async function fieldsOf(request: UpstreamRequest): Promise<[string, string][]> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  const form = await new Response(Uint8Array.from(bytesOf(request)), { headers }).formData()
  return [...form].filter((field): field is [string, string] => typeof field[1] === 'string')
}
