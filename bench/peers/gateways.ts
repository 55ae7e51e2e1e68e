import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture } from '../../scripts/install.mjs'
import type { Found } from '../candidates.ts'
import { OPENAI_MODEL } from '../openai.ts'
import { NPM_PEERS } from './install.ts'

// Gateways that are not npm packages: installed where their registries have them, else skipped by name.

/** Which calls bring along; LiteLLM does not start without one, and it must be long. */
export const GATEWAY_KEY = `sk-${randomBytes(32).toString('hex')}`

/** How a gateway comes here. */
export interface Gateway {
  readonly name: string
  readonly label: string
  readonly version: string
  /** What has to be on this machine. */
  readonly tools: readonly string[]
  /** Into an empty folder that goes where it is left half done. */
  install(folder: string, version: string): Promise<void>
  /** The one that answers `readyPath`. */
  readonly readyPath: string
  start(options: { readonly folder: string; readonly port: number; readonly configuration: string }): {
    readonly command: string
    readonly args: readonly string[]
    readonly env?: Readonly<Record<string, string>>
  }
  /** Written into a folder of the run: its name there and its content. */
  configuration(upstreamPort: number): { readonly name: string; readonly content: object }
}

/** LiteLLM's proxy, from PyPI into an environment of its own. One worker, as all others have one. */
export const LITELLM: Gateway = {
  name: 'litellm',
  label: 'LiteLLM proxy',
  version: '1.106.2',
  tools: ['python3'],
  async install(folder, version) {
    await capture('python3', ['-m', 'venv', folder])
    const pip = join(folder, 'bin', 'pip')
    await capture(pip, ['install', '--quiet', '--disable-pip-version-check', `litellm[proxy]==${version}`])
  },
  readyPath: '/health/readiness',
  start: ({ folder, port, configuration }) => ({
    command: join(folder, 'bin', 'litellm'),
    args: ['--config', configuration, '--host', '127.0.0.1', '--port', `${port}`, '--num_workers', '1'],
    // It must not look for prices or report anything.
    env: { LITELLM_MASTER_KEY: GATEWAY_KEY, LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' },
  }),
  configuration: (upstreamPort) => ({
    name: 'litellm.yaml', // JSON is YAML
    content: {
      model_list: ['gpt-4o-mini', OPENAI_MODEL].map((model) => ({
        model_name: model,
        litellm_params: {
          model: `openai/${model}`,
          api_base: `http://127.0.0.1:${upstreamPort}/v1`,
          api_key: 'sk-bench',
        },
      })),
      litellm_settings: { telemetry: false },
    },
  }),
}

/** Bifrost, built from its Go module: the npm package of that name fetches a binary from elsewhere when it runs. */
export const BIFROST: Gateway = {
  name: 'bifrost',
  label: 'Bifrost',
  version: 'latest',
  tools: ['go'],
  async install(folder, version) {
    const module = `github.com/maximhq/bifrost/transports/bifrost-http@${version}`
    await capture('env', [`GOBIN=${join(folder, 'bin')}`, 'go', 'install', module])
  },
  readyPath: '/health',
  start: ({ folder, port, configuration }) => ({
    command: join(folder, 'bin', 'bifrost-http'),
    args: [
      '-host',
      '127.0.0.1',
      '-port',
      `${port}`,
      '-app-dir',
      join(configuration, '..'),
      '-log-level',
      'error',
    ],
  }),
  configuration: (upstreamPort) => ({
    name: 'config.json',
    content: {
      providers: {
        openai: {
          keys: [{ name: 'bench', value: 'sk-bench', models: ['*'], weight: 1 }],
          network_config: { base_url: `http://127.0.0.1:${upstreamPort}` },
        },
      },
      config_store: { enabled: false },
    },
  }),
}

/** Its crates are not published: it is released as binaries and images, which no registry of packages has. */
const AGENTGATEWAY = {
  name: 'agentgateway',
  reason:
    'it is on no registry of packages: its crates are not published, its releases are binaries and images',
}

/** The chat peers that are no npm packages. */
export async function gateways(): Promise<Found[]> {
  return [await installed(LITELLM), await installed(BIFROST), AGENTGATEWAY]
}

/**
 * Installs a gateway into `.larkway/bench-peers/NAME`, once.
 *
 * @returns the gateway, or why it cannot be had here
 */
export async function installed(gateway: Gateway, parent = NPM_PEERS): Promise<Found> {
  const { name, label, version, readyPath } = gateway
  const folder = join(parent, name)
  try {
    await install(gateway, folder)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    return { name, reason: `it could not be installed: ${lastLine((error as Error).message)}` }
  }
  return {
    candidate: {
      name,
      label,
      readyPath,
      versions: { [name]: version },
      command({ port, upstreamPort, folder: run }) {
        const { name: file, content } = gateway.configuration(upstreamPort)
        const configuration = join(run, file)
        writeFileSync(configuration, JSON.stringify(content))
        return gateway.start({ folder, port, configuration })
      },
    },
  }
}

async function install({ name, version, tools, install }: Gateway, folder: string): Promise<void> {
  const done = join(folder, `.installed-${version}`)
  if (existsSync(done)) return
  for (const tool of tools) requireTool(tool)
  console.error(`bench: installing ${name} ${version} into .larkway/bench-peers (once)`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await install(folder, version)
  writeFileSync(done, '')
}

function requireTool(tool: string): void {
  try {
    execFileSync('sh', ['-c', `command -v ${tool}`], { stdio: 'ignore' })
  } catch {
    throw new Error(`${tool} is not on this machine`)
  }
}

/** Results say why, but not from which mirror. */
function lastLine(text: string): string {
  const last = text.trim().split('\n').at(-1) ?? ''
  return last.trim().replaceAll(/https?:\/\/\S+/g, 'the registry')
}
