import { GatewayError } from '../../errors.ts'
import { Router } from '../../inbound/router.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { keyless } from '../endpoint.ts'
import { appEndpoints } from './api/apps.ts'
import { auditEndpoint } from './api/audit.ts'
import { contentEndpoint } from './api/content.ts'
import { creditsEndpoint } from './api/credits.ts'
import { deliveryEndpoints } from './api/deliveries.ts'
import { domainEndpoints } from './api/domains.ts'
import { explainEndpoint } from './api/explain.ts'
import { jobResultEndpoint } from './api/job-result.ts'
import { jobEndpoints } from './api/jobs.ts'
import { keyEndpoints } from './api/keys.ts'
import { modelsEndpoint } from './api/models.ts'
import { NodeHistory } from './api/node-history.ts'
import { healthEndpoint, overviewEndpoint } from './api/overview.ts'
import { playgroundKeyEndpoint } from './api/playground-key.ts'
import { providerEndpoints } from './api/providers.ts'
import { purposeEndpoints } from './api/purposes.ts'
import { requestEndpoints } from './api/requests.ts'
import { routeVersionEndpoints } from './api/route-versions.ts'
import { routeEndpoints } from './api/routes.ts'
import { setupEndpoint } from './api/setup.ts'
import { webhookEndpoints } from './api/webhook.ts'
import { workspaceEndpoints } from './api/workspaces.ts'
import type { ConsoleDesk } from './desk.ts'
import { consolePage } from './page-routes.ts'
import { consoleSession } from './sign-in.ts'

const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const

/** Every path of the console: its API, then the page, whose last path takes all that is left below `/console`. */
export function consoleRoutes(desk: ConsoleDesk): EdgeRoute[] {
  const history = new NodeHistory(desk)
  const api = [
    ...consoleSession(desk),
    ...workspaceEndpoints(desk),
    setupEndpoint(desk),
    creditsEndpoint(desk),
    contentEndpoint(desk),
    ...purposeEndpoints(desk),
    ...appEndpoints(desk),
    ...routeEndpoints(desk),
    ...routeVersionEndpoints(desk),
    explainEndpoint(desk),
    modelsEndpoint(desk),
    ...providerEndpoints(desk),
    ...keyEndpoints(desk),
    playgroundKeyEndpoint(desk),
    ...domainEndpoints(desk),
    ...webhookEndpoints(desk),
    ...deliveryEndpoints(desk),
    ...jobEndpoints(desk),
    jobResultEndpoint(desk),
    ...requestEndpoints(desk, history),
    overviewEndpoint(desk, history),
    healthEndpoint(desk, history),
    auditEndpoint(desk),
  ]
  const rest = [...elsewhere(api), ...consolePage()]
  return [...api, ...rest.map((route) => keyless(desk.doors, route))]
}

/** What is below the API and no endpoint of it, which the page would be answered for otherwise. */
function elsewhere(api: readonly EdgeRoute[]): EdgeRoute[] {
  const known = new Router(api)
  const handle: EdgeRoute['handle'] = ({ method, path }) => {
    const found = known.find(method, path)
    const headers = { 'cache-control': 'no-store' }
    if (found.route !== null || found.allow === '')
      throw new GatewayError('NOT_FOUND', undefined, { headers })
    throw new GatewayError('METHOD_NOT_ALLOWED', undefined, { headers: { ...headers, allow: found.allow } })
  }
  return METHODS.flatMap((method) =>
    ['/console/api', '/console/api/*'].map((path) => ({ method, path, handle })),
  )
}
