import type { EdgeRoute } from '../inbound/server.ts'
import { type Doors, endpoint } from './endpoint.ts'
import { healthz, type Readiness, readyz } from './health.ts'
import { me } from './me.ts'
import { speech } from './speech.ts'
import { transcription, translation } from './transcription.ts'

/** Every path that Larkway answers. */
export function createRoutes(doors: Doors, readiness: Readiness): EdgeRoute[] {
  return [
    healthz,
    readyz(readiness),
    endpoint(doors, 'GET', '/v1/me', me),
    endpoint(doors, 'POST', '/v1/transcription', transcription),
    endpoint(doors, 'POST', '/v1/translation', translation),
    endpoint(doors, 'POST', '/v1/speech', speech),
  ]
}
