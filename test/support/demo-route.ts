import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { type ReceivedCall, type Sandbox, startSandbox } from '../../src/sandbox/server.ts'
import { type Gateway, type GatewayOptions, startGateway } from './gateway.ts'
import { type Larkway, startLarkway } from './larkway.ts'
import type { Program } from './program.ts'

export type DemoRoute = Gateway & DemoCalls
export type DemoProcess = Larkway & DemoCalls

interface DemoCalls {
  readonly authorization: { readonly authorization: string }
  /** What the sandbox received since `forget`. */
  calls(): Promise<ReceivedCall[]>
  forget(): Promise<void>
}

export interface DemoRouteOptions {
  /** Options of each entry of the route, in order; default: one entry without faults. */
  readonly entries?: readonly Readonly<Record<string, unknown>>[]
  /** Further members of the configuration file. */
  readonly config?: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, string>>
  readonly dataFolder?: string
  /** Instead of a sandbox of its own: the base URL of some other upstream that speaks OpenAI's format. */
  readonly upstreamUrl?: string
}

/** Starts a gateway whose one route leads to a sandbox, without a rate limit that matters. */
export function startDemoRoute(t: Test, options: DemoRouteOptions = {}): Promise<DemoRoute> {
  return demoRoute(t, options, startGateway)
}

/**
 * The same as a process of its own, where its memory is measured or it is killed.
 *
 * @param program default: the compiled server of this tree
 */
export function startDemoProcess(
  t: Test,
  options: DemoRouteOptions = {},
  program?: Program,
): Promise<DemoProcess> {
  return demoRoute(t, options, (t, own) => startLarkway(t, { ...own, program }))
}

async function demoRoute<Started extends Gateway>(
  t: Test,
  options: DemoRouteOptions,
  start: (t: Test, options: GatewayOptions) => Promise<Started>,
): Promise<Started & DemoCalls> {
  const sandbox = options.upstreamUrl === undefined ? await openSandbox(t) : null
  const key = makeKey()
  const origin = new URL(options.upstreamUrl ?? sandbox?.url ?? '').origin
  const gateway = await start(t, {
    key,
    config: configuration(options.upstreamUrl ?? `${origin}/v1`, key, options),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.dataFolder === undefined ? {} : { dataFolder: options.dataFolder }),
  })
  return {
    ...gateway,
    authorization: { authorization: `Bearer ${key}` },
    calls: async () =>
      ((await (await fetch(`${origin}/sandbox/calls`)).json()) as { calls: ReceivedCall[] }).calls,
    forget: async () => void (await fetch(`${origin}/sandbox/calls`, { method: 'DELETE' })),
  }
}

async function openSandbox(t: Test): Promise<Sandbox> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  return sandbox
}

function configuration(
  baseUrl: string,
  key: string,
  { entries = [{}], config = {} }: DemoRouteOptions,
): object {
  return {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: { sandbox: { kind: 'sandbox', access: 'platform', base_url: baseUrl } },
    routes: {
      voice: {
        workspace: 'acme',
        entries: entries.map((given) => ({ provider: 'sandbox', model: 'morse-1', options: given })),
      },
    },
    workspaces: {
      acme: {
        apps: { web: { route: 'voice' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
      },
    },
    ...config,
  }
}
