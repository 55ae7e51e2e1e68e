#!/usr/bin/env node
import { main } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// The command `larkway`.
await main(async () => run(await prepare(), 'src/cli.ts', process.argv.slice(2), { ownGroup: false }))
