import { Type } from 'typebox'
import { type ConsoleCall, requireWorkspace } from '../endpoint.ts'

/** The parameter `workspace` of what can be seen of one workspace or of all. */
export const WorkspaceField = Type.Optional(Type.String({ minLength: 1, maxLength: 64 }))

type ScopedCall = Pick<ConsoleCall<'', unknown, { readonly workspace?: string }>, 'desk' | 'viewer' | 'query'>

/**
 * The workspace that a viewer asks about; null: all. An admin who names none asks about the own one.
 *
 * @throws GatewayError NOT_FOUND
 */
export function scopeOf({ desk, viewer, query: { workspace } }: ScopedCall): string | null {
  if (workspace === undefined) return viewer.role === 'operator' ? null : viewer.principal.workspace.id
  requireWorkspace(workspace, viewer, desk)
  return workspace
}
