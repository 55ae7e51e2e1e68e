#!/usr/bin/env node
import { compiled } from './compile.mjs'
import { main } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// The command `larkway`.
await main(async () => {
  const node = await prepare({ onlyRuns: true })
  run(node, await compiled('cli.ts', node), process.argv.slice(2), { ownGroup: false })
})
