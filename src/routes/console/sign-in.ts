import type { EdgeRoute } from '../../inbound/server.ts'
import { endpoint } from '../endpoint.ts'
import type { ConsoleDesk } from './desk.ts'
import { consoleEndpoint, readStrict, WrittenReply } from './endpoint.ts'
import { requireSameOrigin } from './same-origin.ts'
import { SignIn, sessionAnswer, signIn, signOut } from './session.ts'
import { WrongKeys } from './wrong-keys.ts'

const PATH = '/session'

/** POST, GET and DELETE of the session: signing in with an API key, who is signed in, and signing out. */
export function consoleSession(desk: ConsoleDesk): EdgeRoute[] {
  const wrongKeys = new WrongKeys(desk.nowMs)
  return [
    endpoint(desk.doors, 'POST', `/console/api${PATH}`, async (exchange, trail) => {
      trail.headers['cache-control'] = 'no-store'
      requireSameOrigin(exchange)
      wrongKeys.refuseTooMany(exchange)
      const { key } = await readStrict(SignIn, exchange, desk)
      return signIn(key, { exchange, trail, desk, wrongKeys })
    }),
    consoleEndpoint(desk, 'GET', PATH, {}, ({ viewer }) => sessionAnswer(viewer)),
    consoleEndpoint(desk, 'DELETE', PATH, {}, async ({ viewer, exchange }) => {
      return new WrittenReply(await signOut(viewer, exchange, desk))
    }),
  ]
}
