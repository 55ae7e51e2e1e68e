-- Tells of some jobs of a partition what their records need of what is kept for them, also of marked ones.
--
-- KEYS partition never
-- ARGV ids
-- Reply a list for each that has a record: {id, status, kind, fence, result, spec}
--
-- `ids` is a list in JSON. `result` is JSON, empty when there is none; `spec` is left out where the status says enough.

local known = {}
for _, id in ipairs(cjson.decode(ARGV[1])) do
  local name = key('job', id)
  local status, kind, fence, result = unpack(redis.call('HMGET', name, 'status', 'kind', 'fence', 'result'))
  if status then
    local is_dead = kind == 'queue' and status == 'failed'
    local spec = is_dead and redis.call('HGET', name, 'spec') or ''
    table.insert(known, { id, status, kind or '', fence or '0', result or '', spec })
  end
end
return known
