import { type Browser, chromium } from 'playwright-core'
import type { Teardown } from './scratch.ts'
import { locate } from './servers.ts'

/**
 * A real Chromium that asks nobody by itself, ended with the test.
 *
 * @param more switches of its command line
 */
export async function openBrowser(t: Teardown, more: readonly string[] = []): Promise<Browser> {
  const { command, env = {} } = await locate('browser')
  const quiet = ['background-networking', 'component-update', 'sync', 'quic', 'gpu'].map(
    (name) => `--disable-${name}`,
  )
  const browser = await chromium.launch({
    executablePath: command[0]!,
    env: { ...process.env, ...env },
    args: ['--no-sandbox', '--no-first-run', ...quiet, ...more],
  })
  t.teardown(() => browser.close())
  return browser
}
