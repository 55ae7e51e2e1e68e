// Signs the document of facts about models that is part of the program, for `larkway models update`:
//
//   node scripts/sign-models.ts KEY.pem [ISSUED_AT] > models-signed.json
//
// KEY.pem is an Ed25519 private key, PKCS #8; ISSUED_AT replaces the document's own, which grows with it.

import { createPrivateKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type ModelsDocument, readModels } from '../src/gateway/providers/facts.ts'
import { signModels } from '../src/gateway/providers/feed.ts'

const [keyFile, issuedAt] = process.argv.slice(2)
if (keyFile === undefined) throw new Error('usage: node scripts/sign-models.ts KEY.pem [ISSUED_AT]')
const text = readFileSync(new URL('../src/gateway/providers/models.json', import.meta.url), 'utf8')
const own = JSON.parse(text) as ModelsDocument
const document = { ...own, issued_at: issuedAt ?? own.issued_at }
readModels(document)
process.stdout.write(
  `${JSON.stringify(signModels(document, createPrivateKey(readFileSync(keyFile))), null, 2)}\n`,
)
