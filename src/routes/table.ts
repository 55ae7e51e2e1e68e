import type { EdgeRoute } from '../inbound/server.ts'
import { audio } from './audio.ts'
import { chat } from './chat.ts'
import { complete } from './complete.ts'
import type { ConsoleDesk } from './console/desk.ts'
import { consoleRoutes } from './console/table.ts'
import { embeddings } from './embeddings.ts'
import { type Doors, endpoint, keyless } from './endpoint.ts'
import { healthz, type Readiness, readyz } from './health.ts'
import { image } from './image.ts'
import { me } from './me.ts'
import { openaiRoutes } from './openai/table.ts'
import { documentation } from './openapi/routes.ts'
import { queue } from './queue.ts'
import { type ResultLinks, results } from './results.ts'
import { speech } from './speech.ts'
import { transcription, translation } from './transcription.ts'
import { transcriptionJobs } from './transcription-jobs.ts'
import { video } from './video.ts'
import { vision } from './vision.ts'
import { audioUrlDomains } from './workspace-domains.ts'
import { sttWebhook, type WebhookOptions } from './workspace-webhook.ts'

/**
 * Every path that Larkway answers.
 *
 * @param links null where the object store opens its URLs itself
 * @param desk  null: there is no console
 */
export function createRoutes(
  doors: Doors,
  readiness: Readiness,
  links: ResultLinks | null,
  webhooks: WebhookOptions,
  desk: ConsoleDesk | null = null,
): EdgeRoute[] {
  const routes = [
    healthz,
    readyz(readiness),
    ...(links === null ? [] : [keyless(doors, results(links))]),
    endpoint(doors, 'GET', '/v1/me', me),
    endpoint(doors, 'POST', '/v1/chat', chat),
    endpoint(doors, 'POST', '/v1/complete', complete),
    endpoint(doors, 'POST', '/v1/vision', vision),
    endpoint(doors, 'POST', '/v1/embeddings', embeddings),
    endpoint(doors, 'POST', '/v1/image', image),
    endpoint(doors, 'POST', '/v1/transcription', transcription, { idempotent: true }),
    endpoint(doors, 'POST', '/v1/translation', translation, { idempotent: true }),
    ...transcriptionJobs(doors),
    endpoint(doors, 'POST', '/v1/speech', speech),
    endpoint(doors, 'POST', '/v1/audio', audio),
    endpoint(doors, 'POST', '/v1/video', video),
    endpoint(doors, 'POST', '/v1/queue', queue, { idempotent: true }),
    ...openaiRoutes(doors),
    ...audioUrlDomains(doors),
    ...sttWebhook(doors, webhooks),
  ]
  const console = desk === null ? [] : consoleRoutes(desk)
  return [...routes, ...documentation(routes).map((route) => keyless(doors, route)), ...console]
}
