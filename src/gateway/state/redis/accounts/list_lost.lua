-- Money that dead nodes held and that is to be recorded, after reservations past their lease were charged.
--
-- KEYS account spent reservations leases charged lost
-- ARGV kept_ms limit
-- Reply {{token, spend, key_id, end_user, at_ms}, …}, all of them texts
--
-- What was recorded, or had nothing to record, is forgotten after `kept_ms`.

local SWEPT_AT_ONCE = 500

local account, spent, reservations, leases, charged, lost = unpack(KEYS)
expire_due({ account = account, spent = spent, reservations = reservations, leases = leases, charged = charged,
  lost = lost }, SWEPT_AT_ONCE)

local found, limit = {}, tonumber(ARGV[2])
local all = redis.call('HGETALL', lost)
for i = 1, #all, 2 do
  local told, recovered, _, _, spend, _, key_id, end_user, at_ms = string.match(all[i + 1], MONEY_LOST)
  local is_due = told == '0' and (recovered == '1' or spend ~= '0')
  if is_due and #found < limit then found[#found + 1] = { all[i], spend, key_id, end_user, at_ms } end
  if not is_due and tonumber(at_ms or 0) < now_ms - ARGV[1] then redis.call('HDEL', lost, all[i]) end
end
return found
