-- Takes back what a begin_call whose answer was lost may have done, and lets it do nothing should it come only now.
--
-- KEYS slot void account spent reservations leases end_user
-- ARGV token has_slot void_ms claim
-- Reply 1
--
-- The server may read the lost command after this one, from a connection that its sender has given up, so the token is
-- void for a while even where something was taken back: a command may lie in more than one such connection.
--
-- `claim` = '0': the token is used once. Else only this claim of it is void, and what another one holds is left alone.

local slot, void, account, spent, reservations, leases, end_user = unpack(KEYS)
local token = ARGV[1]

redis.call('SET', void, '', 'PX', ARGV[3])

if ARGV[2] == '1' then
  local held = redis.call('HMGET', slot, 'state', 'token', 'lease_until_ms')
  -- Past its lease it counts as burned, and others may have been told so.
  if held[1] == 'running' and held[2] == token and tonumber(held[3]) > now_ms then redis.call('DEL', slot) end
end

local record = redis.call('HGET', reservations, token)
if not record or tonumber(redis.call('ZSCORE', leases, token) or 0) <= now_ms then return 1 end
local by, purse, platform, spend, month, key_id, end_user_account = string.match(record, MONEY_TAKEN)
if by ~= ARGV[4] then return 1 end
redis.call('HDEL', reservations, token)
redis.call('ZREM', leases, token)
charge({ account = account, spent = spent }, purse, tonumber(platform), tonumber(spend), month, key_id, 0, 0)
if end_user_account ~= '' then end_user_more(end_user, month, -tonumber(spend)) end
return 1
