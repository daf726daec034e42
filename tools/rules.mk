tools_out :=
