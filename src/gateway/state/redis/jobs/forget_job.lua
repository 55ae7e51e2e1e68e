-- Deletes the record of a marked job.
--
-- KEYS partition never
-- ARGV id
-- Reply 1
--
-- Its idempotency key stays for what is left of the time that was promised.

local id = ARGV[1]
local name = key('job', id)
local marked, workspace, app, slot_id = unpack(redis.call('HMGET', name, 'marked', 'workspace', 'app', 'slot'))
if not marked then return 1 end
if slot_id then
  local slot = key('slot', workspace, slot_id)
  local keep_until = redis.call('HGET', slot, 'keep_until')
  if keep_until then redis.call('PEXPIREAT', slot, keep_until) end
end
redis.call('DEL', name)
redis.call('ZREM', key('abandoned'), id)
redis.call('ZREM', key('index'), id)
if workspace and app then redis.call('ZREM', app_list(workspace, app), id) end
redis.call('ZREM', key('expiry'), id)
return 1
