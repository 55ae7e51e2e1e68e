import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'

/** A stand-in for a provider whose models each behave as they are told. */
export interface BehavingUpstream<Received, Behaviour> {
  /** As a provider's `base_url`. */
  readonly url: string
  readonly received: readonly Received[]
  /** From now on this model does so. */
  behave(model: string, behaviour: Behaviour): void
}

/** @param answer one request; what it rejects with breaks the connection */
export async function startBehavingUpstream<Received, Behaviour>(
  t: Pick<Test, 'teardown'>,
  answer: (
    request: IncomingMessage,
    response: ServerResponse,
    received: Received[],
    behaviours: ReadonlyMap<string, Behaviour>,
  ) => Promise<void>,
): Promise<BehavingUpstream<Received, Behaviour>> {
  const received: Received[] = []
  const behaviours = new Map<string, Behaviour>()
  const origin = await serveHttp(t, (request, response) => {
    void answer(request, response, received, behaviours).catch(() => response.destroy())
  })
  return {
    url: `${origin}/v1`,
    received,
    behave: (model, behaviour) => void behaviours.set(model, behaviour),
  }
}
