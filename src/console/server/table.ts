import { GatewayError } from '../../contracts/errors.ts'
import { keyless } from '../../gateway/api/endpoint.ts'
import type { Operation } from '../../gateway/api/openapi/operation.ts'
import { Router } from '../../gateway/edge/router.ts'
import type { EdgeRoute } from '../../gateway/edge/server.ts'
import { appEndpoints } from './api/apps.ts'
import { auditEndpoint } from './api/audit.ts'
import { bookEndpoints } from './api/books.ts'
import { explainEndpoint } from './api/explain.ts'
import { trafficEndpoints } from './api/impact.ts'
import { jobEndpoints } from './api/jobs.ts'
import { keyEndpoints } from './api/keys.ts'
import { liveEndpoints } from './api/live.ts'
import { logEndpoints } from './api/log.ts'
import { modelsEndpoint } from './api/models.ts'
import { NodeHistory } from './api/node-history.ts'
import { oneProviderEndpoints } from './api/one-provider.ts'
import { healthEndpoint, overviewEndpoint } from './api/overview.ts'
import { providerEndpoints } from './api/providers.ts'
import { endpointsEndpoint, requestEndpoints } from './api/requests.ts'
import { routeEndpoints } from './api/routes.ts'
import { sessionEndpoints } from './api/sessions.ts'
import { settingsEndpoints } from './api/settings.ts'
import { setupEndpoint } from './api/setup.ts'
import { shadowEndpoint } from './api/shadows.ts'
import { usageEndpoint } from './api/usage.ts'
import { workspaceEndpoints } from './api/workspaces.ts'
import type { ConsoleContext } from './context.ts'
import type { ConsoleRoute } from './endpoint.ts'
import { managementRoutes, operationsOf } from './management.ts'
import { oidcEndpoints, SingleSignOn } from './oidc/endpoints.ts'
import { consolePage } from './page-assets.ts'
import { consoleSession } from './sign-in.ts'

const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const

/** Every endpoint of the console's API that the management API has, too. */
function endpointsOf(context: ConsoleContext): ConsoleRoute[] {
  const history = new NodeHistory(context)
  return [
    ...workspaceEndpoints(context),
    setupEndpoint(context),
    ...appEndpoints(context),
    ...routeEndpoints(context),
    shadowEndpoint(context, history),
    explainEndpoint(context),
    ...trafficEndpoints(context, history),
    modelsEndpoint(context),
    ...providerEndpoints(context),
    ...oneProviderEndpoints(context),
    ...keyEndpoints(context),
    ...settingsEndpoints(context),
    ...jobEndpoints(context),
    ...requestEndpoints(context, history),
    ...bookEndpoints(context),
    ...logEndpoints(context),
    ...liveEndpoints(context, history),
    overviewEndpoint(context, history),
    healthEndpoint(context, history),
    usageEndpoint(context),
    auditEndpoint(context),
  ]
}

/** The operations of the management API, for the reference. */
export function managementOperations(context: ConsoleContext): Operation[] {
  return operationsOf(endpointsOf(context))
}

/**
 * Every path of the console: its API, for its page and for keys, then the page, whose last path takes everything else
 * below `/console`.
 */
export function consoleRoutes(context: ConsoleContext): EdgeRoute[] {
  const singleSignOn = new SingleSignOn(context)
  const endpoints = endpointsOf(context)
  const api = [
    ...consoleSession(context, singleSignOn),
    ...oidcEndpoints(context, singleSignOn),
    ...sessionEndpoints(context),
    endpointsEndpoint(context),
    ...endpoints,
  ]
  const rest = [...unknownPaths(api), ...consolePage()]
  return [...api, ...managementRoutes(endpoints), ...rest.map((route) => keyless(context.deps, route))]
}

/** Refuses paths below the API that are not endpoints: otherwise the page would be the answer. */
function unknownPaths(api: readonly EdgeRoute[]): EdgeRoute[] {
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
