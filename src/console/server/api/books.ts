import { type Static, Type } from 'typebox'
import { booksJson, compareBooks } from '../../../gateway/admin/books.ts'
import type { BooksAnswer } from '../answers/books.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint, scopeOf, WorkspaceField } from '../endpoint.ts'

const PATH = '/books'
const Query = Type.Object({ workspace: WorkspaceField })

/** Charges of accounts, compared with the cost of their usage records. */
export function bookEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [consoleEndpoint(context, 'GET', PATH, { query: Query }, books)]
}

async function books(call: ConsoleCall<typeof PATH, unknown, Static<typeof Query>>): Promise<BooksAnswer> {
  const { context, viewer } = call
  return booksJson(await compareBooks(viewer.actor, scopeOf(call), context.usage, context.admin))
}
